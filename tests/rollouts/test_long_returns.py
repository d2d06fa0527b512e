"""Returns of long episodes: the plain float32 sum of their rewards, to the bit."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import Pair

from envrax import (
    EnvConfig,
    EnvState,
    ExpandDims,
    JaxEnv,
    RecordEpisodeStatistics,
    VecEnv,
    evaluate,
)
from envrax.spaces import Box, Discrete
from envrax.wrappers import vector

N = 30_000
REWARDS = np.random.default_rng(0).normal(0.1, 1, N).astype(np.float32)
RETURN = np.add.accumulate(REWARDS)[-1]  # one after the other; `np.sum` adds in pairs


class RecordedEnv(JaxEnv[Box, Discrete, EnvState, EnvConfig]):
    """The same many rewards in each episode."""

    @property
    def observation_space(self) -> Box:
        return Box(0.0, 1.0, ())

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def reset(self, rng: jax.Array) -> tuple[Any, EnvState]:
        return jnp.float32(0), EnvState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False))

    def step(self, state: EnvState, action: Any) -> tuple[Any, ...]:
        step = state.step + 1
        done = step >= self.config.max_steps
        info = {"terminated": done, "truncated": jnp.bool_(False)}
        reward = jnp.asarray(REWARDS)[state.step]
        return jnp.float32(0), state.replace(step=step, done=done), reward, done, info


def stay(policy_state: Any, obs: Any, rng: Any) -> Any:
    return jnp.zeros(jnp.shape(obs), jnp.int32), policy_state, None


def test_a_plain_sum_is_rounded() -> None:
    assert RETURN.dtype == np.float32 and np.float32(REWARDS.sum(dtype=np.float64)) != RETURN


@pytest.mark.parametrize("wrapper", [ExpandDims, lambda env: VecEnv(env, 2)])
def test_evaluate_adds_up_long_episodes(wrapper: Any) -> None:
    found = evaluate(wrapper(RecordedEnv(EnvConfig(max_steps=N))), stay, jax.random.key(0), 2)
    np.testing.assert_array_equal(found.returns, [RETURN] * 2)
    assert found.returns.dtype == jnp.float32 and found.lengths.tolist() == [N, N]


@pytest.mark.slow
def test_evaluate_adds_up_long_episodes_of_each_agent() -> None:
    def both(policy_state: Any, obs: Any, rng: Any) -> Any:
        return jax.tree.map(lambda x: jnp.zeros(jnp.shape(x), jnp.int32), obs), policy_state, None

    world = Pair(RecordedEnv(EnvConfig(max_steps=N)))
    for env in (world, VecEnv(world, 2)):
        found = evaluate(env, both, jax.random.key(0), 2)
        for returns in found.returns.values():
            np.testing.assert_array_equal(returns, [RETURN] * 2)


@pytest.mark.parametrize("wrapper", [lambda env: env, ExpandDims])
def test_statistics_add_up_long_episodes(wrapper: Any) -> None:
    env = RecordEpisodeStatistics(wrapper(RecordedEnv(EnvConfig(max_steps=N))))
    _, state = env.reset(jax.random.key(0))
    state = jax.lax.fori_loop(0, N - 1, lambda _, state: env.step(state, 0)[1], state)
    assert state.episode_return == np.add.accumulate(REWARDS)[-2]
    episode = env.step(state, 0)[4]["episode"]
    assert episode["r"].dtype == jnp.float32 and episode["r"] == RETURN
    assert episode["l"].dtype == jnp.int32 and episode["l"] == N


def test_statistics_around_a_batch_add_up_long_episodes() -> None:
    env = vector.RecordEpisodeStatistics(VecEnv(RecordedEnv(EnvConfig(max_steps=N)), 2))
    actions = jnp.zeros(2, jnp.int32)
    _, state = env.reset(jax.random.key(0))
    state = jax.lax.fori_loop(0, N - 1, lambda _, state: env.step(state, actions)[1], state)
    episode = env.step(state, actions)[4]["episode"]
    np.testing.assert_array_equal(episode["r"], [RETURN] * 2)
    assert episode["r"].dtype == jnp.float32 and episode["l"].tolist() == [N, N]
