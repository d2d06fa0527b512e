"""`RecordEpisodeStatistics` around a batch."""

from typing import Any

import chex
import jax
import jax.numpy as jnp

from envrax._jax.returned import with_info_entry
from envrax.agent_values import add_rewards, by_agent
from envrax.env import ActSpaceT, Info, ObsSpaceT
from envrax.termination import episode_end
from envrax.wrappers.vector.base import BatchedWrapper, BatchedWrapperState

_WHO = "RecordEpisodeStatistics.step"


@chex.dataclass
class BatchedEpisodeState(BatchedWrapperState):
    """
    State of `RecordEpisodeStatistics` around a batch.

    Attributes
    ----------
    episode_return : jax.Array
        float32[n_slots], the return of the episode that each slot plays. In a multi-agent
        environment, a dict with one array for each agent.
    episode_length : jax.Array
        int32[n_slots], the number of its steps.
    """

    episode_return: Any
    episode_length: jax.Array


class RecordEpisodeStatistics(BatchedWrapper[ObsSpaceT, ActSpaceT]):
    """
    Add the returns and lengths of episodes as `infos["episode"] = {"r": float32, "l": int32}`.

    For a simulator on the host, and for the statistics of what a wrapper around the batch changes.
    Inside a `VecEnv`, use the wrapper of the same name around one environment.

    In a slot whose episode ends, "r" is the sum of its rewards and "l" the number of its steps. In
    all others both are zero. In a multi-agent environment, "r" is a dict with one array for each
    agent.

    Raises
    ------
    ValueError
        At the first step, if the batch has an `infos["episode"]` of its own.
    TypeError
        At the first step, if dones are not bool of shape `(n_slots,)`.
    """

    state_class = BatchedEpisodeState

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        zeros = by_agent(self, jnp.zeros(self.n_slots, jnp.float32))
        length = jnp.zeros(self.n_slots, jnp.int32)
        return obs, {"episode_return": zeros, "episode_length": length}

    def on_step(
        self, obs: Any, state: Any, rewards: jax.Array, dones: jax.Array, infos: Info, /
    ) -> Any:
        episode_end(_WHO, (self.n_slots,), dones, {})  # raises if `dones` are not bool
        total = add_rewards(state.episode_return, rewards)
        length = state.episode_length + 1
        at_end = jax.tree.map(lambda x: jnp.where(dones, x, jnp.zeros_like(x)), (total, length))
        infos = with_info_entry(
            _WHO, self.env, infos, "episode", dict(zip("rl", at_end, strict=True))
        )
        state = state.replace(episode_return=total, episode_length=length)
        return obs, self._begun_where(dones, state), rewards, dones, infos

    def on_reset_where(self, mask: jax.Array, obs: Any, state: Any, /) -> tuple[Any, Any]:
        return obs, self._begun_where(mask, state)

    def _begun_where(self, mask: jax.Array, state: Any) -> Any:
        names = "episode_return", "episode_length"
        fields = {name: getattr(state, name) for name in names}
        zero = jax.tree.map(lambda x: jnp.where(mask, jnp.zeros_like(x), x), fields)
        return state.replace(**zero)
