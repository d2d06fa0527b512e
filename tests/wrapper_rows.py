"""Every wrapper of the package, and the kinds of env that it takes: one row each."""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from fakes import ALL, CoinEnv, LivesEnv, NestedEnv, PixelEnv, VectorEnv

from envrax import (
    AtariPreprocessing,
    Box,
    ClipAction,
    ClipReward,
    DelayObservation,
    Dict,
    DiscretizeAction,
    DomainRandomization,
    DtypeObservation,
    EpisodeDiscount,
    EpisodicLife,
    ExpandDims,
    FilterObservation,
    FlattenAction,
    FlattenObservation,
    FrameStackObservation,
    GrayscaleObservation,
    JitWrapper,
    MaxAndSkipObservation,
    NanGuard,
    NormalizeObservation,
    ObservationWrapper,
    RecordEpisodeStatistics,
    RecordVideo,
    RepeatAction,
    RescaleAction,
    RescaleObservation,
    ReshapeObservation,
    ResizeObservation,
    StartStates,
    StickyAction,
    TimeAwareObservation,
    TimeLimit,
    TransformAction,
    TransformObservation,
    TransformReward,
    Wrapper,
)

Wrap = Callable[[Any], Any]


class ImageOnly(ObservationWrapper[Box, Any, Any, Any]):
    @property
    def observation_space(self) -> Box:
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
        if isinstance(env.observation_space, Dict):
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
    return StartStates(env, partial(draw, jax.vmap(env.reset)(rngs)))


ROWS: dict[str, tuple[Wrap, list[Any]]] = {
    "Wrapper": (Wrapper, ALL),
    "JitWrapper": (JitWrapper(pre_warm=False), [CoinEnv, NestedEnv, VectorEnv, PixelEnv]),
    "GrayscaleObservation": (GrayscaleObservation, [PixelEnv]),
    "ResizeObservation": (pick(ResizeObservation(h=7, w=5)), [PixelEnv, NestedEnv]),
    "NormalizeObservation": (pick(NormalizeObservation), [PixelEnv, NestedEnv]),
    "FrameStackObservation": (pick(FrameStackObservation(n_stack=3)), ALL),
    "ClipReward": (ClipReward, [CoinEnv, *ALL[:3]]),
    "NanGuard": (NanGuard, [VectorEnv, CoinEnv, PixelEnv, NestedEnv]),
    "ExpandDims": (ExpandDims, ALL),
    "EpisodeDiscount": (EpisodeDiscount, [CoinEnv, *ALL[:3]]),
    "RecordEpisodeStatistics": (RecordEpisodeStatistics, [CoinEnv, *ALL[:3]]),
    "RecordVideo": (RecordVideo(episode_trigger=lambda _: False), [PixelEnv]),
    "AtariPreprocessing": (AtariPreprocessing(noop_max=3, screen_size=6), [PixelEnv]),
    "ClipAction": (ClipAction, [CoinEnv]),
    "DelayObservation": (DelayObservation(delay=2), [NestedEnv, PixelEnv]),
    "DiscretizeAction": (DiscretizeAction(bins=3), [CoinEnv]),
    "DomainRandomization": (DomainRandomization(sample=draw_gravity), [VectorEnv]),
    "DtypeObservation": (DtypeObservation(dtype="float32"), [PixelEnv]),
    "EpisodicLife": (EpisodicLife, [LivesEnv]),
    "FilterObservation": (FilterObservation(filter_keys=["both"]), [NestedEnv]),
    "FlattenAction": (FlattenAction, [NestedEnv, CoinEnv]),
    "FlattenObservation": (FlattenObservation, [NestedEnv, PixelEnv]),
    "MaxAndSkipObservation": (MaxAndSkipObservation(skip=2), [PixelEnv, CoinEnv]),
    "RepeatAction": (RepeatAction(num_repeats=3), [NestedEnv, CoinEnv]),
    "RescaleAction": (RescaleAction(min_action=-3.0, max_action=0.0), [CoinEnv]),
    "RescaleObservation": (RescaleObservation(min_obs=-1.0, max_obs=1.0), [PixelEnv]),
    "ReshapeObservation": (ReshapeObservation(shape=(5, 72)), [PixelEnv]),
    "StartStates": (from_buffer, [CoinEnv, VectorEnv, PixelEnv]),
    "StickyAction": (StickyAction(repeat_action_probability=0.5), [NestedEnv, CoinEnv]),
    "TimeAwareObservation": (TimeAwareObservation, [NestedEnv, VectorEnv]),
    "TimeLimit": (TimeLimit(max_steps=4), [CoinEnv, *ALL[:3]]),
    "TransformAction": (TransformAction(func=operator.neg), [CoinEnv]),
    "TransformObservation": (TransformObservation(func=operator.neg), [VectorEnv]),
    "TransformReward": (TransformReward(func=operator.neg), [VectorEnv]),
    "key": (
        in_turn(
            ResizeObservation(h=3, w=3, key="image"),
            FrameStackObservation(n_stack=2, key="image"),
            NormalizeObservation(key="image"),
        ),
        [NestedEnv],
    ),
    "gymnasium": (
        pick(
            TimeLimit(max_steps=3),
            StickyAction(repeat_action_probability=0.5),
            RescaleAction(min_action=-2.0, max_action=2.0),
            ClipAction,
            RepeatAction(num_repeats=2),
            DelayObservation(delay=1),
            TimeAwareObservation,
        ),
        [CoinEnv],
    ),
    "images": (
        pick(
            GrayscaleObservation,
            ResizeObservation(h=6, w=6),
            FrameStackObservation(n_stack=2),
            NormalizeObservation,
            ClipReward,
        ),
        [PixelEnv],
    ),
    "episodes": (
        pick(
            NanGuard,
            RecordEpisodeStatistics,
            FrameStackObservation(n_stack=2),
            JitWrapper(pre_warm=False),
            RecordEpisodeStatistics,
            EpisodeDiscount,
            ExpandDims,
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
