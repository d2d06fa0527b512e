"""`NanGuard`: a slot with a NaN begins a new episode, and the other slots do not change."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import VectorConfig, VectorEnv
from helpers import assert_trees_equal, plain

from envrax import (
    EpisodeDiscount,
    ExpandDims,
    FrameStackObservation,
    NanGuard,
    RecordEpisodeStatistics,
    VecEnv,
)
from envrax.autoreset import Select

BREAK = 2  # the action that breaks a slot


class BreakableEnv(VectorEnv):
    """Its observation, its reward, or both become `value` under action 2."""

    def __init__(
        self, value: float = jnp.nan, where: str = "both", with_reason: bool = True
    ) -> None:
        super().__init__(VectorConfig(max_steps=50))
        self.value, self.where, self.with_reason = value, where, with_reason

    def step(self, state: Any, action: Any) -> tuple[Any, ...]:
        obs, state, reward, done, info = super().step(state, jnp.minimum(action, 1))
        broken = jnp.asarray(action) == BREAK
        if self.where in ("obs", "both"):
            obs = jnp.where(broken, obs.at[1].set(self.value), obs)
            state = state.replace(pos=obs)
        if self.where in ("reward", "both"):
            reward = jnp.where(broken, jnp.float32(self.value), reward)
        return obs, state, reward, done, info if self.with_reason else {}


@pytest.mark.parametrize(
    ("value", "where"), [(np.nan, "obs"), (np.inf, "reward"), (-np.inf, "both")]
)
def test_the_episode_ends_with_nothing(value: float, where: str) -> None:
    plain, env = BreakableEnv(value, where), NanGuard(BreakableEnv(value, where))
    obs, state = env.reset(jax.random.key(0))
    raw, *_ = plain.step(state.env_state, BREAK)
    obs, state, reward, done, info = env.step(state, BREAK)
    assert bool(done) and bool(state.done) and float(reward) == 0.0
    assert bool(info["non_finite"]) and bool(info["terminated"]) and not bool(info["truncated"])
    np.testing.assert_array_equal(obs, np.where(np.isfinite(raw), raw, 0))
    assert (obs.dtype, reward.dtype, done.dtype) == (jnp.float32, jnp.float32, jnp.bool_)


def test_a_sound_environment_is_left_alone() -> None:
    plain, env = VectorEnv(), NanGuard(VectorEnv())
    first, state = env.reset(jax.random.key(0))
    assert_trees_equal((first, state.env_state), plain.reset(jax.random.key(0)))
    info: Any = {}
    for _ in range(5):
        obs, expected_state, *expected = plain.step(state.env_state, 1)
        returned, state, *rest, info = env.step(state, 1)
        assert not bool(info.pop("non_finite"))
        assert_trees_equal((returned, state.env_state), (obs, expected_state))
        assert_trees_equal([*rest, info], expected)
    assert bool(state.done) and bool(info["truncated"])


class BrokenStart(VectorEnv):
    """Some episodes begin with a NaN, which is gone in the next step."""

    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        obs, state = super().reset(rng)
        return jnp.where(obs > 0, jnp.nan, obs), state


def test_an_episode_that_begins_with_a_nan_ends_in_its_first_step() -> None:
    vec_env = VecEnv(NanGuard(NanGuard(BrokenStart())), 16, autoreset=Select())
    raw, _ = jax.jit(jax.vmap(BrokenStart().reset))(jax.random.split(jax.random.key(0), 16))
    broken = np.isnan(raw).any(axis=1)
    assert 0 < broken.sum() < 16
    obs, state = vec_env.reset(jax.random.key(0))
    np.testing.assert_array_equal(obs, np.nan_to_num(raw, nan=0.0))
    _, _, reward, done, info = vec_env.step(state, np.ones(16, np.int32))
    for flag in (done, info["non_finite"], info["terminated"], np.asarray(reward) == 0):
        np.testing.assert_array_equal(flag, broken)


def test_a_second_guard_keeps_what_the_first_one_found() -> None:
    env = NanGuard(NanGuard(BreakableEnv(with_reason=False)))
    _, state = env.reset(jax.random.key(0))
    assert env.step(state, BREAK)[4] == {"non_finite": True, "terminated": True, "truncated": False}
    no = {"non_finite": False, "terminated": False, "truncated": False}
    assert env.step(state, 0)[4] == no


@cache
def guarded() -> Any:
    env = RecordEpisodeStatistics(NanGuard(BreakableEnv()))
    return VecEnv(FrameStackObservation(env, n_stack=2), 4, autoreset=Select(), final_obs=True)


def test_the_other_slots_never_notice() -> None:
    """Slot by slot the bits are those of a batch in which nothing breaks."""
    n, steps, hurt = 4, 6, 2
    sound = np.random.default_rng(1).integers(0, 2, (steps, n), np.int32)
    vec_env = guarded()
    _, start = vec_env.reset(jax.random.key(0))

    @jax.jit
    def rollout(actions: jax.Array) -> Any:
        def step(state: Any, action: jax.Array) -> Any:
            obs, state, reward, *_ = vec_env.step(state, action)
            return state, (obs, reward)

        state, (obs, reward) = jax.lax.scan(step, start, actions)
        return state, obs, reward

    def others(tree: Any) -> Any:
        state, obs, reward = jax.tree.map(plain, tree)
        kept = np.asarray([i for i in range(n) if i != hurt])
        return jax.tree.map(lambda x: x[kept], state), obs[:, kept], reward[:, kept]

    hurtful = sound.copy()
    hurtful[3, hurt] = BREAK
    broken, whole = rollout(hurtful), rollout(sound)
    assert_trees_equal(others(broken), others(whole))
    leaves = [plain(x) for x in jax.tree.leaves(broken)]
    assert all(np.isfinite(x).all() for x in leaves if x.dtype.kind == "f")
    assert int(broken[0].step[hurt]) == 2 and int(whole[0].step[hurt]) == 6


def test_what_bootstrapping_reads_is_finite() -> None:
    _, state = guarded().reset(jax.random.key(0))
    obs, state, reward, done, info = guarded().step(state, [0, BREAK, 0, 0])
    assert np.isfinite(obs).all() and np.isfinite(info["final_obs"]).all()
    np.testing.assert_array_equal(done, [False, True, False, False])
    np.testing.assert_array_equal(info["non_finite"], [False, True, False, False])
    np.testing.assert_array_equal(info["episode"]["l"], [0, 1, 0, 0])
    assert np.isfinite(info["episode"]["r"]).all()


@pytest.mark.parametrize(
    ("beneath", "end"), [(EpisodeDiscount, np.float32(0)), (ExpandDims, np.array([True]))]
)
def test_above_a_wrapper_that_makes_something_else_of_done(beneath: Any, end: Any) -> None:
    env = NanGuard(beneath(BreakableEnv()))
    _, state = env.reset(jax.random.key(0))
    _, after, reward, done, _ = env.step(state, BREAK)
    np.testing.assert_array_equal(done, end)
    assert np.asarray(done).dtype == end.dtype and done.shape == end.shape
    assert bool(after.done) and after.done.shape == () and not np.any(reward)
    _, after, _, done, _ = env.step(state, 0)
    assert not bool(after.done) and not np.array_equal(done, end)
