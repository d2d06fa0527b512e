"""`observe` of wrappers is None, or what their `reset` and `step` return, bit for bit."""

from __future__ import annotations

from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import LivesEnv, PixelEnv
from helpers import assert_trees_equal, slow_but
from wrapper_rows import ROWS

import envrax
from envrax.testing import CountingEnv, ImageEnv, report_env
from envrax.wrappers import WrapperState
from envrax.wrappers.atari import LifeLoss, NoopReset

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

QUICK = ("GrayscaleObservation", "DomainRandomization", "NanGuard")
ON_DEVICE = [row for row in ROWS if row != "RecordVideo"]
KEY = jax.random.key(2)


@chex.dataclass
class RememberedState(WrapperState[Any]):
    obs: Any


class Remembers(envrax.StatefulWrapper[Any, Any, RememberedState, Any, Any]):
    """Any environment, with an `observe`: the state has the last observation."""

    def on_reset(self, obs: Any) -> Any:
        return obs, {"obs": obs}

    def on_step(self, obs: Any, state: Any, *rest: Any) -> Any:
        return obs, state.replace(obs=obs), *rest

    def observe(self, state: Any) -> Any:
        return state.obs


def assert_observed(env: Any) -> None:
    """
    Of the states that `reset`, each step and the reset after it return, in one program.

    The run goes on by that reset where an episode ended.
    """

    def seen(obs: Any, state: Any) -> Any:
        return obs, env.observe(state)

    def step(state: Any, action: Any) -> Any:
        last, state, *_ = env.step(state, action)
        begun, after = env.reset_after(state)
        pairs = seen(last, state), seen(begun, after)
        return jax.tree.map(partial(jnp.where, state.done), after, state), pairs

    @jax.jit
    def run(rng: jax.Array) -> Any:
        first, state = env.reset(rng)
        rngs = jax.random.split(rng, 7)
        actions = jax.vmap(env.action_space.sample)(rngs)
        return seen(first, state), *jax.lax.scan(step, state, actions)[1]

    for obs, observed in run(KEY):
        assert_trees_equal(observed, obs)


@pytest.mark.parametrize("row", slow_but(*QUICK, values=ON_DEVICE))
def test_each_wrapper_observes_what_it_returns_or_nothing(row: str) -> None:
    wrap, kinds = ROWS[row]
    env = wrap(Remembers(kinds[0]()))
    if row not in WITHOUT:
        assert_observed(env)
        return
    state = jax.eval_shape(env.reset, KEY)[1]
    assert jax.eval_shape(env.observe, state) is None


def test_a_video_and_a_compiled_environment_observe_what_they_return() -> None:
    env = ROWS["RecordVideo"][0](envrax.JitWrapper(Remembers(PixelEnv()), pre_warm=False))
    obs, state = env.reset(KEY)
    assert_trees_equal(env.observe(state), obs)


@pytest.mark.slow
def test_no_ops_and_lost_lives_observe_what_they_return() -> None:
    assert_observed(LifeLoss(NoopReset(Remembers(LivesEnv()), noop_max=3)))


class ShowsDone(CountingEnv):
    """The observation has more of the state than what the environment drew."""

    def observe(self, state: Any) -> Any:
        return jnp.stack([state.step, jnp.int32(state.done)])


def test_what_a_wrapper_writes_to_the_state_is_not_observed() -> None:
    assert_observed(envrax.StickyAction(envrax.TimeLimit(ShowsDone(), max_steps=2), 0.5))


class Noisy(ImageEnv):
    """Inherits an `observe` that its steps do not follow."""

    def step(self, state: Any, action: Any) -> Any:
        obs, *rest = super().step(state, action)
        return obs + jnp.uint8(1), *rest


class Brighter(envrax.Wrapper[Any, Any, Any, Any]):
    def step(self, state: Any, action: Any) -> Any:
        obs, *rest = super().step(state, action)
        return obs + jnp.uint8(1), *rest


class Later(envrax.TimeLimit[Any, Any, Any, Any]):
    def on_step(self, obs: Any, state: Any, reward: Any, done: Any, info: Any) -> Any:
        obs, *results = super().on_step(obs, state, reward, done, info)
        return obs + jnp.uint8(1), *results


@pytest.mark.parametrize("env", [Noisy(), Later(ImageEnv())], ids=repr)
def test_an_inherited_observe_is_a_promise_that_the_checks_compare(env: Any) -> None:
    found = [str(finding) for finding in report_env(env).findings]
    assert any(".observe: expected `obs` of `step`" in text for text in found)


def test_a_wrapper_with_a_step_of_its_own_has_no_observe_but_its_own() -> None:
    env = Brighter(ImageEnv())
    _, state = env.reset(KEY)
    assert env.observe(state) is None
    ours = envrax.RepeatAction(env, num_repeats=2).step(state, jnp.int32(2))[0]
    for _ in range(2):
        obs, state, *_ = env.step(state, jnp.int32(2))
    np.testing.assert_array_equal(ours, obs)
