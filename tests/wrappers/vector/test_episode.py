"""`RecordEpisodeStatistics` around a batch: that of one environment, and Gymnasium's."""

from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics as OfGymnasium
from helpers import assert_trees_equal

from envrax import RecordEpisodeStatistics as OfOneEnv
from envrax import VecEnv, rollout, start
from envrax.autoreset import Select
from envrax.interop import from_gymnasium_vec
from envrax.testing import CountingEnv
from envrax.wrappers.vector import RecordEpisodeStatistics

KEY = jax.random.key(0)


def cartpoles() -> SyncVectorEnv:
    make = [partial(gymnasium.make, "CartPole-v1", max_episode_steps=15)] * 3
    return SyncVectorEnv(make, autoreset_mode=AutoresetMode.SAME_STEP)


@pytest.mark.parametrize(
    "env",
    [
        pytest.param(
            RecordEpisodeStatistics(VecEnv(CoinEnv(), 4, autoreset=Select())), id="around"
        ),
        pytest.param(VecEnv(OfOneEnv(CoinEnv()), 4), id="within", marks=pytest.mark.slow),
    ],
)
def test_it_sums_the_rewards_of_each_episode(env: Any) -> None:
    play = jax.jit(lambda rng: rollout(env, None, start(env, rng), 30)[1])
    steps = jax.tree.map(np.asarray, play(KEY))
    total, length = np.zeros(4, np.float32), np.zeros(4, np.int32)
    for t, done in enumerate(steps.done):
        total, length = total + steps.reward[t], length + 1
        np.testing.assert_allclose(steps.info["episode"]["r"][t], np.where(done, total, 0), 1e-6)
        np.testing.assert_array_equal(steps.info["episode"]["l"][t], np.where(done, length, 0))
        total, length = np.where(done, 0, total), np.where(done, 0, length)
    assert steps.done.any()


def test_on_the_host_it_equals_that_of_gymnasium() -> None:
    ours = RecordEpisodeStatistics(from_gymnasium_vec(cartpoles()))
    theirs = OfGymnasium(cartpoles())
    obs, state = ours.reset(KEY)
    expected, _ = theirs.reset(seed=int(jax.random.bits(KEY, (), np.uint32)) >> 2)
    assert_trees_equal(np.asarray(obs), expected)
    ends = 0
    for i in range(60):
        actions = np.asarray(ours.action_space.sample(jax.random.key(i)))
        _, state, _, dones, infos = ours.step(state, actions)
        told = theirs.step(actions)[-1].get("episode", {"r": np.zeros(3), "l": np.zeros(3, int)})
        assert_trees_equal(infos["episode"]["r"], told["r"].astype(np.float32))
        assert_trees_equal(infos["episode"]["l"], told["l"].astype(np.int32))
        ends += int(np.sum(np.asarray(dones)))
    assert ends > 4


def test_a_slot_that_is_reset_begins_at_zero() -> None:
    env = RecordEpisodeStatistics(VecEnv(CountingEnv(), 3, autoreset=False))

    @jax.jit
    def again(rng: jax.Array) -> Any:
        obs, state, *_ = env.step(env.reset(rng)[1], jnp.ones(3, jnp.int32))
        return env.reset_where(jnp.array([True, False, False]), obs, state)[1]

    state = again(KEY)
    assert state.episode_length.tolist() == [0, 1, 1] and state.episode_return[0] == 0


def test_a_policy_on_the_host_is_told_where_episodes_begin() -> None:
    """`first` is True in the first step, and in the one after each end."""

    def policy(state: Any, obs: Any, rng: Any, first: Any) -> Any:
        return jnp.where(first, 1, 0), state, {"first": first}

    for wrap in (lambda env: env, RecordEpisodeStatistics):
        env = wrap(from_gymnasium_vec(cartpoles()))
        _, steps = rollout(env, policy, start(env, KEY), 40)
        expected = np.concatenate([np.ones((1, 3), bool), np.asarray(steps.done)[:-1]])
        assert_trees_equal(np.asarray(steps.extras["first"]), expected)
        assert steps.done.any()
