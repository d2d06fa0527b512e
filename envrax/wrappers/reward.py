"""Wrappers that change the reward."""

import jax
import jax.numpy as jnp

from envrax.env import ActSpaceT, ConfigT, ObsSpaceT, StateT
from envrax.wrappers.hooks import RewardWrapper


class ClipReward(RewardWrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Replace the reward by its sign: float32 in {-1, 0, +1}.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = ClipReward(CountingEnv())
    >>> obs, state = env.reset(jax.random.key(0))
    >>> float(env.step(state, 2)[2])
    1.0
    """

    def reward(self, reward: jax.Array) -> jax.Array:
        return jnp.sign(jnp.asarray(reward).astype(jnp.float32))
