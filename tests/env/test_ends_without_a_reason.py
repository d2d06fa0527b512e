"""
An end without a reason is a truncation where `at_limit`, else a termination, whoever asks.

Here, action 2 terminates.
"""

from functools import cache
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import Pair
from helpers import assert_trees_equal, small_vec

import envrax
from envrax import EnvConfig, TimeLimit
from envrax.interop import to_gymnasium, to_gymnasium_vec, to_gymnax
from envrax.multi_agent import OneAgent
from envrax.testing import CountingEnv, ImageEnv
from envrax.testing.fakes import FakeConfig
from envrax.wrappers import (
    AtariPreprocessing,
    DomainRandomization,
    NanGuard,
    RepeatAction,
    StartStates,
    TransformReward,
    vector,
)

LIMIT = EnvConfig(max_steps=6)
RNG = jax.random.key(0)


class Open(CountingEnv):
    """It ends at its limit, or by action 2, and says which."""

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, _, _ = super().step(state, action)
        truncated = state.step >= self.config.max_steps
        terminated = jnp.asarray(action == 2) & ~truncated
        done = terminated | truncated
        info = {"terminated": terminated, "truncated": truncated}
        return obs, state.replace(done=done), reward, done, info


class Silent(Open):
    """The same, without the reasons."""

    def step(self, state: Any, action: Any) -> Any:
        return *super().step(state, action)[:4], {}


class SaysNeither(Open):
    """The same; both reasons are False."""

    def step(self, state: Any, action: Any) -> Any:
        no = jnp.bool_(False)
        return *super().step(state, action)[:4], {"terminated": no, "truncated": no}


def policy(state: Any, obs: jax.Array, rng: jax.Array) -> Any:
    """Ends the episodes whose first number is even, in their fourth step."""
    ends = (obs[..., 0] % 2 == 0) & (obs[..., 1] == 3)
    return jnp.where(ends, 2, 0).astype(jnp.int32), state, None


def waits(policy_state: Any, obs: Any, rng: jax.Array) -> Any:
    return {"right": jnp.int32(0)}, policy_state, None


@cache
def built(name: str, env_class: Any) -> Any:
    return STACKS[name](env_class(LIMIT))


def played(name: str, env_class: Any) -> Any:
    env = built(name, env_class)
    return envrax.rollout(env, policy, envrax.start(env, RNG), 30)


def from_the_middle(env: Any) -> Any:
    def sample(rng: jax.Array) -> Any:
        state = env.reset(rng)[1]
        return env.step(state, 0)[:2]

    return StartStates(env, sample)


STACKS: dict[str, Any] = {
    "env": lambda env: env,
    "StartStates of StartStates": lambda env: from_the_middle(from_the_middle(env)),
    "VecEnv": lambda env: small_vec(env, 4),
    "TimeLimit": lambda env: TimeLimit(env, 9),
    "frame skip": lambda env: RepeatAction(env, 3),
    "drawn limit": lambda env: DomainRandomization(
        env, lambda rng: {"max_steps": jax.random.randint(rng, (), 5, 8, jnp.int32)}
    ),
    "TimeLimit of a drawn limit": lambda env: TimeLimit(STACKS["drawn limit"](env), 9),
    "NanGuard of StartStates": lambda env: NanGuard(from_the_middle(env)),
    "OneAgent": lambda env: OneAgent(Pair(env), "left", waits),
    "NormalizeReward": lambda env: vector.NormalizeReward(small_vec(env, 4)),
}


# Each stack meets one of both by default.
CASES = [*product(STACKS, (Silent, SaysNeither))]
QUICK = [(name, (Silent, SaysNeither)[i % 2]) for i, name in enumerate(STACKS)]


@pytest.mark.parametrize(
    ("name", "silent_class"),
    [pytest.param(*x, marks=() if x in QUICK else pytest.mark.exhaustive) for x in CASES],
)
def test_in_rollouts(name: str, silent_class: Any) -> None:
    steps = jax.tree.map(np.asarray, played(name, silent_class)[1]._replace(info={}))
    assert steps.terminated.any() and steps.truncated.any()
    np.testing.assert_array_equal(steps.terminated, steps.action == 2)
    np.testing.assert_array_equal(steps.truncated, steps.done & (steps.action != 2))


class Images(ImageEnv):
    """It ends at its limit and gives no reason."""

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, done, _ = super().step(state, action)
        return obs, state, reward, done, {"lives": jnp.int32(3)}


@pytest.mark.slow
def test_with_the_preprocessing_of_atari() -> None:
    options: Any = dict(noop_max=3, frame_skip=1, screen_size=4, terminal_on_life_loss=True)
    env = AtariPreprocessing(Images(FakeConfig(max_steps=6)), **options)
    steps = envrax.rollout(env, None, envrax.start(env, RNG), 30)[1]
    assert steps.done.any()
    assert_trees_equal(steps.truncated, steps.done)
    assert not steps.terminated.any()


def test_a_number_that_is_not_finite_terminates_at_the_limit_too() -> None:
    env = NanGuard(TransformReward(Silent(LIMIT), lambda reward: reward / 0))
    steps = envrax.rollout(env, None, envrax.start(env, RNG), 8)[1]
    assert steps.terminated.all() and not steps.truncated.any()


def test_a_limit_beyond_an_int32_is_never_reached() -> None:
    class ByItself(CountingEnv):
        def step(self, state: Any, action: Any) -> Any:
            obs, state, reward, *_ = Silent(LIMIT).step(state, action)
            return obs, state, reward, state.done, {}

    env = ByItself(EnvConfig(max_steps=2**31))
    steps = envrax.rollout(env, None, envrax.start(env, RNG), 8)[1]
    assert steps.terminated.any() and not steps.truncated.any()


def test_infos_of_a_batch_are_the_environments_own_without_final_obs() -> None:
    env = built("VecEnv", Silent)
    state = jax.eval_shape(env.reset, RNG)[1]
    assert jax.eval_shape(env.step, state, jnp.zeros(4, jnp.int32))[4] == {}


@pytest.mark.slow
def test_rewards_are_normalised_the_same_way_in_a_rollout_and_by_hand() -> None:
    batch = built("NormalizeReward", SaysNeither)
    obs, state = batch.reset(jax.random.split(RNG)[1])
    for _ in range(30):
        obs, state, _, _, infos = batch.step(state, policy(None, obs, RNG)[0])
        assert sorted(infos) == ["terminated", "truncated"]
    end, steps = played("NormalizeReward", SaysNeither)
    open_end, open_steps = played("NormalizeReward", Open)
    assert_trees_equal(end.env_state.statistics, open_end.env_state.statistics)
    assert_trees_equal(steps.reward, open_steps.reward)
    np.testing.assert_allclose(state.statistics.var, end.env_state.statistics.var, rtol=1e-6)


@pytest.mark.slow
def test_at_the_bridges() -> None:
    """The first of two slots ends by its second action, then at its limit, the other there."""
    env = Silent(LIMIT)
    single: Any = to_gymnasium(env)
    batch: Any = to_gymnasium_vec(small_vec(env, 2))
    gymnax: Any = to_gymnax(env, version=1)
    single.reset(seed=0)
    batch.reset(seed=0)
    state = gymnax.reset(RNG, gymnax.default_params)[1]
    for i in range(8):
        action, terminates, truncates = 2 if i == 1 else 0, i == 1, i == 7
        _, _, *found, _ = single.step(action)
        assert found == [terminates, truncates]
        if any(found):
            single.reset()
        _, _, terminated, truncated, _ = batch.step(np.array([action, 0]))
        assert terminated.tolist() == [terminates, False]
        assert truncated.tolist() == [truncates, i == 5]
        stepped = gymnax.step_env(RNG, state, jnp.int32(action), gymnax.default_params)
        assert (stepped[3].item(), stepped[4]["truncated"].item()) == (terminates, truncates)
        stepped = gymnax.step(RNG, state, jnp.int32(action), gymnax.default_params)
        state = stepped[1]
        assert (stepped[3].item(), stepped[4].item()) == (terminates, truncates)
