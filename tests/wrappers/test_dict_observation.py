"""`key=` of the four wrappers that take it, and limits of time."""

import sys
from collections import OrderedDict
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import NestedEnv, VectorConfig, VectorEnv
from helpers import assert_trees_equal, slow_but
from replay import History, Ours, play_ours

import envrax
from envrax import Box, Dict
from envrax._jax.types import named_leaves

IMAGE = Box(0, 255, (4, 6, 3), jnp.uint8)
BOTH = Dict(image=IMAGE, speed=Box(-1.0, 1.0, (2,)))
WITH_KEY = [
    envrax.GrayscaleObservation,
    envrax.ResizeObservation(h=3, w=2),
    envrax.NormalizeObservation,
    envrax.FrameStackObservation(n_stack=3),
]


def keyed(factory: Any) -> Any:
    """The same wrapper for one entry."""
    keywords = getattr(factory, "kwargs", {})
    return getattr(factory, "wrapper", factory)(**keywords, key="image")


@pytest.mark.parametrize("factory", slow_but(*WITH_KEY[2:], values=WITH_KEY), ids=str)
def test_one_entry_is_changed_as_if_it_were_alone(factory: Any) -> None:
    history = History(BOTH)
    alone = History(IMAGE)
    alone.obs = history.obs["image"]
    env, image = keyed(factory)(Ours(history)), factory(Ours(alone))
    assert env.observation_space == Dict(image=image.observation_space, speed=BOTH["speed"])
    seen, images = play_ours(env, [0] * 6)[0], play_ours(image, [0] * 6)[0]
    for t, (obs, expected) in enumerate(zip(seen, images, strict=True)):
        assert_trees_equal(obs, {"image": expected, "speed": history.obs["speed"][t]})
    assert "key='image'" in repr(env) and "key" not in repr(image)


def test_the_final_observation_is_changed_too() -> None:
    env = envrax.FrameStackObservation(
        envrax.TimeLimit(Ours(History(BOTH)), 2), n_stack=2, key="image"
    )
    batch = envrax.VecEnv(env, 2, final_obs=True)
    _, state = batch.reset(jax.random.key(0))
    _, state, *_ = batch.step(state, jnp.zeros(2, jnp.int32))
    obs, _, _, done, info = batch.step(state, jnp.zeros(2, jnp.int32))
    assert done.all()
    frames = History(BOTH).obs["image"]
    np.testing.assert_array_equal(info["final_obs"]["image"][0], np.stack(frames[1:3], -1))
    np.testing.assert_array_equal(obs["image"][0], np.stack(frames[[0, 0]], -1))


# Time limits of environments that say less


@pytest.mark.parametrize("reasons", [("terminated",), ("truncated",)])
def test_an_end_with_one_reason(reasons: tuple[str, ...]) -> None:
    for ends, expected in [({3: "terminated"}, [True, False]), ({3: "truncated"}, [False, True])]:
        env = envrax.TimeLimit(Ours(History(Box(-1.0, 1.0, (2,)), ends=ends), reasons))
        rest = play_ours(env, [0] * 5)[1]
        assert len(rest) == 3 and not any(any(flags) for _, *flags in rest[:-1])
        assert rest[-1][1:] == expected


def test_the_default_limit_is_that_of_the_config() -> None:
    class Endless(VectorEnv):
        def step(self, state: Any, action: Any) -> Any:
            obs, state, reward, _, _ = super().step(state, action)
            never = jnp.bool_(False)
            return obs, state.replace(done=never), reward, never, {}

    env = envrax.EpisodeDiscount(envrax.TimeLimit(envrax.ExpandDims(Endless())))

    @jax.jit
    def run(rng: jax.Array) -> Any:
        def step(state: Any, _: None) -> Any:
            _, state, *rest = env.step(state, jnp.int32(0))
            return state, rest

        return jax.lax.scan(step, env.reset(rng)[1], length=5)

    state, (_, discounts, info) = run(jax.random.key(0))
    assert discounts.tolist() == [[1.0]] * 4 + [[0.0]]
    assert info["truncated"].tolist() == [False] * 4 + [True]
    assert not info["terminated"].any() and bool(state.done)


def test_a_limit_that_no_episode_reaches() -> None:
    env = envrax.TimeAwareObservation(envrax.TimeLimit(VectorEnv(), sys.maxsize))
    _, state = env.reset(jax.random.key(0))
    assert not env.step(state, 0)[3]
    endless = VectorEnv(VectorConfig(max_steps=2**31))
    assert envrax.TimeAwareObservation(endless).observation_space.high[-1] == 2**31 - 1


class OtherContainers(NestedEnv):
    """Its observations are in other containers than the elements of its space."""

    def _obs(self, state: Any) -> Any:
        obs = super()._obs(state)
        return OrderedDict(image=obs["image"], both=[*obs["both"]])


DELAY = envrax.DelayObservation(delay=2)
ACCEPT_OTHERS: list[Any] = [
    DELAY,
    envrax.TimeAwareObservation(flatten=False),
    envrax.FlattenObservation,
    envrax.FilterObservation(filter_keys=["both"]),
    envrax.NormalizeObservation(key="image"),
    envrax.NanGuard,
]


@pytest.mark.parametrize(
    "wrapper", slow_but(envrax.FlattenObservation, values=ACCEPT_OTHERS), ids=str
)
@pytest.mark.slow
def test_containers_of_an_observation_may_be_others(wrapper: Any) -> None:
    seen: list[Any] = []
    for env_class in (NestedEnv, OtherContainers):
        env = wrapper(env_class())
        reset, step = jax.jit(env.reset), jax.jit(env.step)
        obs, state = reset(jax.random.key(0))
        seen.append([named_leaves(obs)])
        for move in (1, 2):
            obs, state, *_ = step(state, {"move": move, "turn": np.int32([1, move])})
            seen[-1].append(named_leaves(obs))
    assert_trees_equal(*seen)
