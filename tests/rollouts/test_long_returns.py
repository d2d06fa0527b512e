"""Returns of long episodes: the sum of many rewards that float32 rounds."""

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

N = 30_000
EXACT = N * float(np.float32(0.1))  # summed plainly, float32 drifts by 6e-5


class TenthEnv(JaxEnv[Box, Discrete, EnvState, EnvConfig]):
    """A reward of 0.1 in each of many steps."""

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
        return jnp.float32(0), state.replace(step=step, done=done), jnp.float32(0.1), done, info


def stay(policy_state: Any, obs: Any, rng: Any) -> Any:
    return jnp.zeros(jnp.shape(obs), jnp.int32), policy_state, None


@pytest.mark.parametrize("wrapper", [ExpandDims, lambda env: VecEnv(env, 2)])
def test_evaluate_adds_up_long_episodes(wrapper: Any) -> None:
    found = evaluate(wrapper(TenthEnv(EnvConfig(max_steps=N))), stay, jax.random.key(0), 2)
    np.testing.assert_allclose(found.returns, EXACT, rtol=2**-23)
    assert found.returns.dtype == jnp.float32 and found.lengths.tolist() == [N, N]


@pytest.mark.slow
def test_evaluate_adds_up_long_episodes_of_each_agent() -> None:
    def both(policy_state: Any, obs: Any, rng: Any) -> Any:
        return jax.tree.map(lambda x: jnp.zeros(jnp.shape(x), jnp.int32), obs), policy_state, None

    world = Pair(TenthEnv(EnvConfig(max_steps=N)))
    for env in (world, VecEnv(world, 2)):
        found = evaluate(env, both, jax.random.key(0), 2)
        for returns in found.returns.values():
            np.testing.assert_allclose(returns, EXACT, rtol=2**-23)


def test_statistics_add_up_long_episodes() -> None:
    env = RecordEpisodeStatistics(TenthEnv(EnvConfig(max_steps=N)))
    _, state = env.reset(jax.random.key(0))
    state = jax.lax.fori_loop(0, N - 1, lambda _, state: env.step(state, 0)[1], state)
    episode = env.step(state, 0)[4]["episode"]
    np.testing.assert_allclose(episode["r"], EXACT, rtol=2**-23)
    assert int(episode["l"]) == N
