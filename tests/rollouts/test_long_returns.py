"""Returns of long episodes: the plain float32 sum of their rewards, to the bit."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import Pair, ScriptEnv
from helpers import small_vec

from envrax import ExpandDims, RecordEpisodeStatistics, evaluate
from envrax.wrappers import vector

N = 30_000
REWARDS = np.random.default_rng(0).normal(0.1, 1, N).astype(np.float32)
SUMS = np.add.accumulate(REWARDS)  # one after the other; `np.sum` adds in pairs
ENV = ScriptEnv(rewards=REWARDS)


@pytest.mark.parametrize(
    "env",
    [
        ExpandDims(ENV),
        small_vec(ENV, 2),
        pytest.param(small_vec(Pair(ENV), 2), marks=pytest.mark.slow),
    ],
    ids=["alone", "batch", "batch of agents"],
)
def test_evaluate_adds_up_long_episodes(env: Any) -> None:
    assert np.float32(REWARDS.sum(dtype=np.float64)) != SUMS[-1]  # a plain sum is rounded
    found = evaluate(env, None, jax.random.key(0), 2)
    for returns in jax.tree.leaves(found.returns):
        np.testing.assert_array_equal(returns, [SUMS[-1]] * 2)
        assert returns.dtype == jnp.float32
    assert found.lengths.tolist() == [N, N]


@pytest.mark.parametrize(
    "env",
    [
        RecordEpisodeStatistics(ENV),
        RecordEpisodeStatistics(ExpandDims(ENV)),
        vector.RecordEpisodeStatistics(small_vec(ENV, 2)),
    ],
    ids=["alone", "with an axis", "batch"],
)
def test_statistics_add_up_long_episodes(env: Any) -> None:
    actions = np.zeros(env.action_space.shape, np.int32)

    @jax.jit
    def last_step(rng: jax.Array) -> Any:
        state = env.reset(rng)[1]
        state = jax.lax.fori_loop(0, N - 1, lambda _, state: env.step(state, actions)[1], state)
        return state.episode_return, env.step(state, actions)[4]["episode"]

    before, episode = jax.device_get(last_step(jax.random.key(0)))
    assert (before == SUMS[-2]).all()
    assert episode["r"].dtype == np.float32 and (episode["r"] == SUMS[-1]).all()
    assert episode["l"].dtype == np.int32 and (episode["l"] == N).all()
