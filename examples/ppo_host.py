# pyright: reportMissingImports=false
"""
Environments of Gymnasium for `ppo.py`: `python examples/ppo.py gymnasium:ALE/Breakout-v5`.

They are simulators on the host. The compiled training calls them at every step, so that it is no
faster than they are.
"""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from ppo_agents import Slots
from ppo_algorithm import PPO
from ppo_options import HOST
from ppo_spaces import SMALLEST_IMAGE, features

from envrax import Box
from envrax.interop import from_gymnasium_vec, in_scan

ATARI = "ALE/"


class HostPPO(PPO):
    """PPO on slots of a vector environment of Gymnasium."""

    n_episodes = 10

    def make_env(self, n_slots: int) -> Slots:
        id = self.options.env.removeprefix(HOST)
        slots = Slots(in_scan(from_gymnasium_vec(vector_env(id, n_slots), final_obs=True)))
        space = slots.batch.single_observation_space
        slots.see = jax.vmap(lambda obs: features(*channels_last(space, obs)))
        return slots

    def learned_reward(self, reward: jax.Array) -> jax.Array:
        """Atari's clipped, as points of one game are worth more than those of another."""
        if self.options.env.startswith(HOST + ATARI):
            reward = jnp.clip(reward, -1.0, 1.0)
        return super().learned_reward(reward)


def vector_env(id: str, n_slots: int) -> Any:
    """
    Atari has a vector environment of its own; of others, Gymnasium steps one after the other.

    Its rewards are the game's points: ALE would clip them otherwise, and returns were no scores.
    """
    if not id.startswith(ATARI):
        return gymnasium.make_vec(id, n_slots, vectorization_mode="sync")
    import ale_py

    gymnasium.register_envs(ale_py)
    options: Any = {"vectorization_mode": "vector_entry_point", "reward_clipping": False}
    return gymnasium.make_vec(id, n_slots, **options)


def channels_last(space: Any, obs: Any) -> tuple[Any, Any]:
    """Images stacked along their first axis, as Atari's, along their last one."""
    shape = space.shape
    if not isinstance(space, Box) or len(shape) != 3:
        return space, obs
    if not shape[0] < SMALLEST_IMAGE <= min(shape[1:]):
        return space, obs
    low, high = (
        np.moveaxis(np.broadcast_to(bound, shape), 0, -1) for bound in (space.low, space.high)
    )
    return Box(low, high, low.shape, space.dtype), jnp.moveaxis(obs, 0, -1)
