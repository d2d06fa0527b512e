"""
An end without a reason is a truncation at `config.max_steps`, else a termination, whoever asks.

Everything is compared with an environment that gives the reasons.
"""

from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_trees_equal, slow_but

import envrax
from envrax import EnvConfig, JaxEnv, TimeLimit, VecEnv
from envrax.interop import to_gymnasium, to_gymnasium_vec, to_gymnax
from envrax.multi_agent import MultiAgentEnv, OneAgent
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


class World(MultiAgentEnv[Any, Any]):
    """An environment with a second agent, which does nothing."""

    @property
    def agents(self) -> tuple[str, ...]:
        return ("a", "b")

    def __init__(self, env: JaxEnv[Any, Any, Any, Any]) -> None:
        super().__init__(env.config)
        self.env = env

    @property
    def observation_space(self) -> Any:
        return envrax.Dict(dict.fromkeys(self.agents, self.env.observation_space))

    @property
    def action_space(self) -> Any:
        return envrax.Dict(dict.fromkeys(self.agents, self.env.action_space))

    def reset(self, rng: jax.Array) -> Any:
        obs, state = self.env.reset(rng)
        return dict.fromkeys(self.agents, obs), state

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, done, info = self.env.step(state, action["a"])
        return {"a": obs, "b": obs}, state, {"a": reward, "b": reward}, done, info


def policy(state: Any, obs: jax.Array, rng: jax.Array) -> Any:
    """Ends the episodes whose first number is even, in their fourth step."""
    ends = (obs[..., 0] % 2 == 0) & (obs[..., 1] == 3)
    return jnp.where(ends, 2, 0).astype(jnp.int32), state, None


def played(env: Any) -> Any:
    steps = envrax.rollout(env, policy, envrax.start(env, RNG), 30)[1]
    assert steps.terminated.any() and steps.truncated.any()
    return steps._replace(info={})


def from_the_middle(env: Any) -> Any:
    def sample(rng: jax.Array) -> Any:
        state = env.reset(rng)[1]
        return env.step(state, 0)[:2]

    return StartStates(env, sample)


STACKS: dict[str, Any] = {
    "env": lambda env: env,
    "StartStates": from_the_middle,
    "StartStates of StartStates": lambda env: from_the_middle(from_the_middle(env)),
    "VecEnv": lambda env: VecEnv(env, 4),
    "VecEnv, not compiled": lambda env: VecEnv(env, 4, jit_compile=False),
    "TimeLimit": lambda env: TimeLimit(env, 9),
    "frame skip": lambda env: VecEnv(RepeatAction(env, 3), 4),
    "drawn limit": lambda env: VecEnv(
        DomainRandomization(
            env, lambda rng: {"max_steps": jax.random.randint(rng, (), 5, 8, jnp.int32)}
        ),
        4,
    ),
    "NormalizeReward": lambda env: vector.NormalizeReward(VecEnv(env, 4)),
    "OneAgent": lambda env: OneAgent(World(env), "a", None),
}


# Each stack meets one of both by default.
CASES = [*product(STACKS, (Silent, SaysNeither))]
QUICK = [(name, (Silent, SaysNeither)[i % 2]) for i, name in enumerate(STACKS)]


@pytest.mark.parametrize(
    ("name", "silent_class"),
    [pytest.param(*x, marks=() if x in QUICK else pytest.mark.exhaustive) for x in CASES],
)
def test_in_rollouts(name: str, silent_class: Any) -> None:
    stack = STACKS[name]
    by_threes = name == "frame skip"
    silent, open_ = (stack(env) for env in (silent_class(LIMIT), Open(LIMIT)))
    if by_threes:
        steps = [envrax.rollout(e, None, envrax.start(e, RNG), 30)[1] for e in (silent, open_)]
        assert_trees_equal(*[x._replace(info={}) for x in steps])
    else:
        assert_trees_equal(played(silent), played(open_))


class Images(ImageEnv):
    """It ends at its limit and gives no reason."""

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, done, _ = super().step(state, action)
        return obs, state, reward, done, {"lives": jnp.int32(3)}


@pytest.mark.parametrize("fields", [{"noop_max": 3}, {"terminal_on_life_loss": True}])
def test_with_the_preprocessing_of_atari(fields: Any) -> None:
    options = {"noop_max": 0, "frame_skip": 1, "screen_size": (4, 4), **fields}
    env = AtariPreprocessing(Images(FakeConfig(max_steps=6)), **options)
    steps = envrax.rollout(env, None, envrax.start(env, RNG), 30)[1]
    assert steps.done.any()
    assert_trees_equal(steps.truncated, steps.done)
    assert not steps.terminated.any()


@pytest.mark.parametrize("env_class", slow_but(Silent, values=[Silent, SaysNeither, Open]))
def test_a_number_that_is_not_finite_terminates_at_the_limit_too(env_class: Any) -> None:
    env = NanGuard(TransformReward(env_class(LIMIT), lambda reward: reward / 0))
    steps = envrax.rollout(env, None, envrax.start(env, RNG), 8)[1]
    assert steps.terminated.all() and not steps.truncated.any()


@pytest.mark.parametrize("limit", [2**31 - 1, 2**31, 2**63 - 1])
def test_a_limit_beyond_an_int32_is_never_reached(limit: int) -> None:
    class ByItself(CountingEnv):
        def step(self, state: Any, action: Any) -> Any:
            obs, state, reward, *_ = Silent(LIMIT).step(state, action)
            return obs, state, reward, state.done, {}

    env = VecEnv(ByItself(EnvConfig(max_steps=limit)), 2)
    steps = envrax.rollout(env, None, envrax.start(env, RNG), 8)[1]
    assert steps.terminated.any() and not steps.truncated.any()


def test_infos_of_a_batch_are_the_environments_own_without_final_obs() -> None:
    env = VecEnv(Silent(LIMIT), 4)
    state = env.reset(RNG)[1]
    assert env.step(state, jnp.zeros(4, jnp.int32))[4] == {}


def test_rewards_are_normalised_the_same_way_in_a_rollout_and_by_hand() -> None:
    found: list[Any] = []
    for env in (Silent(LIMIT), Open(LIMIT)):
        batch = vector.NormalizeReward(VecEnv(env, 4))
        key = jax.random.split(RNG)[1]
        obs, state = batch.reset(key)
        for _ in range(12):
            action = policy(None, obs, RNG)[0]
            obs, state, _, _, infos = batch.step(state, action)
            assert sorted(infos) == ["terminated", "truncated"]
        end = envrax.rollout(batch, policy, envrax.start(batch, RNG), 12)[0]
        np.testing.assert_allclose(state.statistics.var, end.env_state.statistics.var, rtol=1e-6)
        found.append(state.statistics)
    assert_trees_equal(*found)


def test_at_the_bridges() -> None:
    silent, open_ = Silent(LIMIT), Open(LIMIT)
    found: list[Any] = []
    for env in (silent, open_):
        flags: list[Any] = []
        single: Any = to_gymnasium(env)
        batch: Any = to_gymnasium_vec(VecEnv(env, 2))
        gymnax: Any = to_gymnax(env, version=1)
        single.reset(seed=0)
        batch.reset(seed=0)
        state = gymnax.reset(RNG, gymnax.default_params)[1]
        for i in range(8):
            action = 2 if i == 1 else 0
            _, _, terminated, truncated, _ = single.step(action)
            if terminated or truncated:
                single.reset()
            flags.append((bool(terminated), bool(truncated)))
            _, _, terminated, truncated, _ = batch.step(np.array([action, 0]))
            flags += [terminated.tolist(), truncated.tolist()]
            stepped = gymnax.step(RNG, state, jnp.int32(action), gymnax.default_params)
            state = stepped[1]
            flags += [stepped[3].item(), stepped[4].item()]
            stepped = gymnax.step_env(RNG, state, jnp.int32(action), gymnax.default_params)
            flags += [stepped[3].item(), stepped[4]["truncated"].item()]
        found.append(flags)
    assert found[0] == found[1]
    assert (True, False) in found[0] and (False, True) in found[0]
