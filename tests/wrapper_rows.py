"""Every wrapper of the package, and the kinds of env that it takes: one row each."""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from fakes import ALL, CoinEnv, LivesEnv, NestedEnv, PixelEnv, VectorEnv

import envrax

Wrap = Callable[[Any], Any]


class ImageOnly(envrax.ObservationWrapper[envrax.Box, Any, Any, Any]):
    @property
    def observation_space(self) -> envrax.Box:
        inner: Any = self.env.observation_space
        return inner["image"]

    def observation(self, obs: dict[str, Any]) -> Any:
        return obs["image"]


def in_turn(*factories: Wrap) -> Wrap:
    """Several wrappers as one, the innermost first."""

    def wrap(env: Any) -> Any:
        for factory in factories:
            env = factory(env)
        return env

    return wrap


def pick(*factories: Wrap) -> Wrap:
    """The same, around the image of an observation that has one."""

    def wrap(env: Any) -> Any:
        if isinstance(env.observation_space, envrax.Dict):
            env = ImageOnly(env)
        return in_turn(*factories)(env)

    return wrap


def draw_gravity(rng: Any) -> dict[str, Any]:
    return {"gravity": jax.random.uniform(rng, (), jnp.float32, 0.3, 0.8)}


def draw(buffer: Any, rng: jax.Array) -> Any:
    """An observation and a state of four."""
    i = jax.random.randint(rng, (), 0, 4, jnp.int32)
    return jax.tree.map(lambda x: x[i], buffer)


def from_buffer(env: Any) -> Any:
    rngs = jax.random.split(jax.random.key(5), 4)
    return envrax.StartStates(env, partial(draw, jax.vmap(env.reset)(rngs)))


ROWS: dict[str, tuple[Wrap, list[Any]]] = {
    "Wrapper": (envrax.Wrapper, ALL),
    "JitWrapper": (envrax.JitWrapper(pre_warm=False), [CoinEnv, NestedEnv, VectorEnv, PixelEnv]),
    "GrayscaleObservation": (envrax.GrayscaleObservation, [PixelEnv]),
    "ResizeObservation": (pick(envrax.ResizeObservation(h=7, w=5)), [PixelEnv, NestedEnv]),
    "NormalizeObservation": (pick(envrax.NormalizeObservation), [PixelEnv, NestedEnv]),
    "FrameStackObservation": (pick(envrax.FrameStackObservation(n_stack=3)), ALL),
    "ClipReward": (envrax.ClipReward, [CoinEnv, *ALL[:3]]),
    "NanGuard": (envrax.NanGuard, [VectorEnv, CoinEnv, PixelEnv, NestedEnv]),
    "ExpandDims": (envrax.ExpandDims, ALL),
    "EpisodeDiscount": (envrax.EpisodeDiscount, [CoinEnv, *ALL[:3]]),
    "RecordEpisodeStatistics": (envrax.RecordEpisodeStatistics, [CoinEnv, *ALL[:3]]),
    "RecordVideo": (envrax.RecordVideo(episode_trigger=lambda _: False), [PixelEnv]),
    "AtariPreprocessing": (envrax.AtariPreprocessing(noop_max=3, screen_size=6), [PixelEnv]),
    "ClipAction": (envrax.ClipAction, [CoinEnv]),
    "DelayObservation": (envrax.DelayObservation(delay=2), [NestedEnv, PixelEnv]),
    "DiscretizeAction": (envrax.DiscretizeAction(bins=3), [CoinEnv]),
    "DomainRandomization": (envrax.DomainRandomization(sample=draw_gravity), [VectorEnv]),
    "DtypeObservation": (envrax.DtypeObservation(dtype="float32"), [PixelEnv]),
    "EpisodicLife": (envrax.EpisodicLife, [LivesEnv]),
    "FilterObservation": (envrax.FilterObservation(filter_keys=["both"]), [NestedEnv]),
    "FlattenAction": (envrax.FlattenAction, [NestedEnv, CoinEnv]),
    "FlattenObservation": (envrax.FlattenObservation, [NestedEnv, PixelEnv]),
    "MaxAndSkipObservation": (envrax.MaxAndSkipObservation(skip=2), [PixelEnv, CoinEnv]),
    "PadAction": (envrax.PadAction(action_space=envrax.Box(-1.0, 1.0, 3)), [CoinEnv]),
    "PadObservation": (
        envrax.PadObservation(observation_space=envrax.Box(-jnp.inf, jnp.inf, 6)),
        [VectorEnv, CoinEnv],
    ),
    "RepeatAction": (envrax.RepeatAction(num_repeats=3), [NestedEnv, CoinEnv]),
    "RescaleAction": (envrax.RescaleAction(min_action=-3.0, max_action=0.0), [CoinEnv]),
    "RescaleObservation": (envrax.RescaleObservation(min_obs=-1.0, max_obs=1.0), [PixelEnv]),
    "ReshapeObservation": (envrax.ReshapeObservation(shape=(5, 72)), [PixelEnv]),
    "StartStates": (from_buffer, [CoinEnv, VectorEnv, PixelEnv]),
    "StickyAction": (envrax.StickyAction(repeat_action_probability=0.5), [NestedEnv, CoinEnv]),
    "TimeAwareObservation": (envrax.TimeAwareObservation, [NestedEnv, VectorEnv]),
    "TimeLimit": (envrax.TimeLimit(max_steps=4), [CoinEnv, *ALL[:3]]),
    "TransformAction": (envrax.TransformAction(func=operator.neg), [CoinEnv]),
    "TransformObservation": (envrax.TransformObservation(func=operator.neg), [VectorEnv]),
    "TransformReward": (envrax.TransformReward(func=operator.neg), [VectorEnv]),
    "key": (
        in_turn(
            envrax.ResizeObservation(h=3, w=3, key="image"),
            envrax.FrameStackObservation(n_stack=2, key="image"),
            envrax.NormalizeObservation(key="image"),
        ),
        [NestedEnv],
    ),
    "gymnasium": (
        pick(
            envrax.TimeLimit(max_steps=3),
            envrax.StickyAction(repeat_action_probability=0.5),
            envrax.RescaleAction(min_action=-2.0, max_action=2.0),
            envrax.ClipAction,
            envrax.RepeatAction(num_repeats=2),
            envrax.DelayObservation(delay=1),
            envrax.TimeAwareObservation,
        ),
        [CoinEnv],
    ),
    "images": (
        pick(
            envrax.GrayscaleObservation,
            envrax.ResizeObservation(h=6, w=6),
            envrax.FrameStackObservation(n_stack=2),
            envrax.NormalizeObservation,
            envrax.ClipReward,
        ),
        [PixelEnv],
    ),
    "episodes": (
        pick(
            envrax.NanGuard,
            envrax.RecordEpisodeStatistics,
            envrax.FrameStackObservation(n_stack=2),
            envrax.JitWrapper(pre_warm=False),
            envrax.RecordEpisodeStatistics,
            envrax.EpisodeDiscount,
            envrax.ExpandDims,
        ),
        [CoinEnv, VectorEnv, PixelEnv, NestedEnv],
    ),
}

# Those that cannot keep a mask of legal actions: they change actions, or repeat them.
NO_MASKS = {
    "AtariPreprocessing",
    "ClipAction",
    "DiscretizeAction",
    "FlattenAction",
    "MaxAndSkipObservation",
    "RepeatAction",
    "RescaleAction",
    "StickyAction",
    "TransformAction",
    "gymnasium",
}
