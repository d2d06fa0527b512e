"""`observe` of wrappers is None, or what their `reset` and `step` return, bit for bit."""

from __future__ import annotations

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import LivesEnv, PixelEnv
from helpers import assert_trees_equal, random_actions, slow_but
from wrapper_rows import ROWS

from envrax import (
    AtariPreprocessing,
    MaxAndSkipObservation,
    RepeatAction,
    StatefulWrapper,
    StickyAction,
    TimeLimit,
    Wrapper,
)
from envrax.env import keeps_observe
from envrax.testing import CountingEnv, ImageEnv
from envrax.wrappers import WrapperState
from envrax.wrappers.atari import LifeLoss

# Their observations depend on more than the last state of the environment.
WITHOUT = {
    "AtariPreprocessing",
    "DelayObservation",
    "EpisodicLife",
    "FrameStackObservation",
    "MaxAndSkipObservation",
    "StartStates",
    "episodes",
    "gymnasium",
    "images",
    "key",
}

QUICK = ("JitWrapper", "RecordVideo", "GrayscaleObservation", "DomainRandomization", "NanGuard")


@chex.dataclass
class RememberedState(WrapperState[Any]):
    obs: Any


class Remembers(StatefulWrapper[Any, Any, RememberedState, Any, Any]):
    """Any environment, with an `observe`: the state has the last observation."""

    def on_reset(self, obs: Any) -> Any:
        return obs, {"obs": obs}

    def on_step(self, obs: Any, state: Any, *rest: Any) -> Any:
        return obs, state.replace(obs=obs), *rest

    def observe(self, state: Any) -> Any:
        return state.obs


def observations(env: Any) -> Any:
    """What `reset` and each step return, and what `observe` makes of their states."""

    def both(method: Any) -> Any:
        def call(*args: Any) -> Any:
            obs, state = method(*args)[:2]
            return obs, env.observe(state), state

        return jax.jit(call) if env.traceable else call

    reset, step, reset_after = both(env.reset), both(env.step), both(env.reset_after)
    *pair, state = reset(jax.random.key(2))
    yield pair
    actions = random_actions(env.action_space, (7,))
    for i in range(7):
        action = jax.tree.map(lambda x, i=i: x[i], actions)
        *pair, state = step(state, action)
        yield pair
        if bool(state.done):
            *pair, state = reset_after(state)
            yield pair


@pytest.mark.parametrize("row", slow_but(*QUICK, values=ROWS))
def test_each_wrapper_observes_what_it_returns_or_nothing(row: str) -> None:
    wrap, kinds = ROWS[row]
    for obs, observed in observations(wrap(Remembers(kinds[0]()))):
        assert (observed is None) == (row in WITHOUT)
        if observed is not None:
            assert_trees_equal(observed, obs)


@pytest.mark.parametrize(
    "env",
    [
        AtariPreprocessing(Remembers(PixelEnv()), noop_max=3, frame_skip=1, screen_size=4),
        LifeLoss(Remembers(LivesEnv())),
    ],
    ids=["no-ops", "lives"],
)
def test_no_ops_and_lost_lives_observe_what_they_return(env: Any) -> None:
    for obs, observed in observations(env):
        assert_trees_equal(observed, obs)


class ShowsDone(CountingEnv):
    """The observation has more of the state than what the environment drew."""

    def observe(self, state: Any) -> Any:
        return jnp.stack([state.step, jnp.int32(state.done)])


@pytest.mark.parametrize(
    "wrap", [TimeLimit(max_steps=2), StickyAction(repeat_action_probability=0.5)], ids=str
)
def test_what_a_wrapper_writes_to_the_state_is_not_observed(wrap: Any) -> None:
    for obs, observed in observations(wrap(ShowsDone())):
        np.testing.assert_array_equal(observed, obs)


class Noisy(ImageEnv):
    """Inherits an `observe` that its steps do not follow."""

    def step(self, state: Any, action: Any) -> Any:
        obs, *rest = super().step(state, action)
        return obs + jnp.uint8(1), *rest


class Brighter(Wrapper[Any, Any, Any, Any]):
    def step(self, state: Any, action: Any) -> Any:
        obs, *rest = super().step(state, action)
        return obs + jnp.uint8(1), *rest


class Later(TimeLimit[Any, Any, Any, Any]):
    def on_step(self, obs: Any, state: Any, reward: Any, done: Any, info: Any) -> Any:
        obs, *results = super().on_step(obs, state, reward, done, info)
        return obs + jnp.uint8(1), *results


@pytest.mark.parametrize("env", [Noisy(), Brighter(ImageEnv()), Later(ImageEnv())], ids=repr)
@pytest.mark.parametrize("skips", [RepeatAction(num_repeats=2), MaxAndSkipObservation(skip=2)])
def test_an_inherited_observe_is_not_used_where_steps_are_overridden(env: Any, skips: Any) -> None:
    assert not keeps_observe(env)
    _, state = env.reset(jax.random.key(0))
    frames = []
    ours = skips(env).step(state, jnp.int32(2))[0]
    for _ in range(2):
        obs, state, *_ = env.step(state, jnp.int32(2))
        frames.append(np.asarray(obs))
    of_both = isinstance(skips(env), MaxAndSkipObservation)
    np.testing.assert_array_equal(ours, np.maximum(*frames) if of_both else frames[1])
