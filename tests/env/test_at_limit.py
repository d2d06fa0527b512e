"""`at_limit`: False up to the step at the limit, in the count of whoever holds the limit."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from fakes import Pair

import envrax
from envrax import EnvConfig, JitWrapper, RecordEpisodeStatistics, RepeatAction, TimeLimit
from envrax.multi_agent import OneAgent
from envrax.testing import CountingEnv, ImageEnv, NimWorld
from envrax.testing.fakes import FakeConfig
from envrax.testing.multi_agent_fakes import NimConfig
from envrax.wrappers import (
    AtariPreprocessing,
    DomainRandomization,
    DtypeObservation,
    EpisodicLife,
    FrameStackObservation,
    NanGuard,
    StartStates,
)

KEY = jax.random.key(0)


def counting(max_steps: int) -> Any:
    return CountingEnv(EnvConfig(max_steps=max_steps))


def started_late(env: Any) -> Any:
    """Episodes begin in a state after two steps."""
    obs, state = env.reset(KEY)
    for _ in range(2):
        obs, state, *_ = env.step(state, 0)
    return StartStates(env, lambda rng: (obs, state))


def drawn(env: Any, max_steps: int) -> Any:
    return DomainRandomization(env, lambda rng: {"max_steps": jnp.int32(max_steps)})


class Lives(CountingEnv):
    """It loses a life with every second step."""

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, done, info = super().step(state, action)
        return obs, state, reward, done, {**info, "lives": 3 - state.step // 2}


def waits(policy_state: Any, obs: Any, rng: jax.Array) -> Any:
    return {"right": jnp.int32(0)}, policy_state, None


def atari(env: Any) -> Any:
    """One no-op before each episode, and two steps for an action."""
    return AtariPreprocessing(env, noop_max=1, frame_skip=2, screen_size=4)


# The environment, and in how many steps it comes to its limit.
STACKS: dict[str, tuple[Any, int]] = {
    "env": (counting(3), 3),
    "TimeLimit": (TimeLimit(counting(9), 3), 3),
    "TimeLimit above the env's limit": (TimeLimit(counting(3), 9), 3),
    "StartStates": (started_late(counting(5)), 3),
    "StartStates of TimeLimit": (started_late(TimeLimit(counting(9), 5)), 3),
    "TimeLimit of StartStates": (TimeLimit(started_late(counting(9)), 3), 3),
    "drawn limit": (drawn(counting(9), 3), 3),
    "NanGuard of a drawn limit": (NanGuard(drawn(counting(9), 3)), 3),
    "TimeLimit of a drawn limit": (TimeLimit(drawn(counting(9), 3), 5), 3),
    "drawn limit of StartStates": (drawn(started_late(counting(9)), 5), 3),
    "frame skip": (RepeatAction(counting(7), 3), 3),
    "no-ops": (atari(ImageEnv(FakeConfig(max_steps=6))), 3),
    "JitWrapper": (JitWrapper(counting(3), pre_warm=False), 3),
    "state of a wrapper": (FrameStackObservation(RecordEpisodeStatistics(counting(3))), 3),
    "world": (NimWorld(NimConfig(max_steps=3)), 3),
    "each agent": (DtypeObservation(NimWorld(NimConfig(max_steps=3)), jnp.float32), 3),
    "OneAgent": (OneAgent(Pair(counting(3)), "left", waits), 3),
}


@pytest.mark.parametrize("name", STACKS)
def test_the_limit_is_reached_by_steps(name: str) -> None:
    env, limit = STACKS[name]
    state = env.reset(KEY)[1]
    step, at_limit = jax.jit(env.step), jax.jit(env.at_limit)
    action = jax.tree.map(jnp.zeros_like, env.action_space.sample(KEY))
    for i in range(limit):
        reached = at_limit(state)
        assert (reached.shape, reached.dtype) == ((), jnp.bool_)
        assert not reached, i
        state = step(state, action)[1]
    assert at_limit(state)


def test_the_limit_of_a_game_stays_where_a_life_is_lost() -> None:
    env = EpisodicLife(Lives(FakeConfig(max_steps=5)))
    state = env.reset(KEY)[1]
    seen: list[tuple[int, bool]] = []
    for _ in range(5):
        state = env.step(state, 0)[1]
        seen.append((int(state.step), bool(env.at_limit(state))))
        if bool(state.done):
            state = env.reset_after(state)[1]
    assert seen == [(1, False), (2, False), (1, False), (2, False), (1, True)]


class Own(CountingEnv):
    """An end by action 2 without a reason, and a limit of its own: at an even number of steps."""

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, *_ = super().step(state, action)
        done = jnp.asarray(action == 2)
        return obs, state.replace(done=done), reward, done, {}

    def at_limit(self, state: Any) -> jax.Array:
        return state.step % 2 == 0


@pytest.mark.parametrize("wrap", [lambda env: env, NanGuard, lambda env: TimeLimit(env, 99)])
def test_a_limit_of_its_own_decides_what_an_end_is(wrap: Any) -> None:
    env = wrap(Own())

    def acts(i: jax.Array, obs: Any, rng: jax.Array) -> Any:
        return jnp.where(i % 5 < 2, 2, 0), i + 1, None  # ends after 1 step, 1 step, 4 steps

    steps = envrax.rollout(env, acts, envrax.start(env, KEY, jnp.int32(1)), 9)[1]
    assert steps.done.tolist() == [True, False, False, False, True, True, False, False, False]
    assert steps.truncated.tolist() == [False] * 4 + [True] + [False] * 4
    assert steps.terminated.tolist() == [True] + [False] * 4 + [True] + [False] * 3
