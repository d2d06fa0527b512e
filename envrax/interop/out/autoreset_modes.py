"""Batches for the auto-reset modes of Gymnasium other than same-step, which a `VecEnv` has."""

from collections.abc import Callable
from typing import Any, cast

import chex
import jax
import jax.numpy as jnp

from envrax._jax.mesh import where_slots
from envrax._jax.returned import strip_weak_type
from envrax.autoreset.slot import next_episode
from envrax.autoreset.strategies import begin_if
from envrax.batched_env import AnyBatch
from envrax.env import AnyEnv
from envrax.interop.out.attributes import layers
from envrax.interop.out.packing import keys_as_bits
from envrax.multi_agent.agent_slots import AgentSlots
from envrax.sharding import ShardedEnv, shard
from envrax.vec_env import VecEnv
from envrax.wrappers.base import Wrapper
from envrax.wrappers.vector import RecordEpisodeStatistics
from envrax.wrappers.vector.base import BatchedWrapper, BatchedWrapperState


def next_step(who: str, batch: AnyBatch) -> AnyBatch:
    """The batch for the mode `NEXT_STEP`, to be stepped without auto-reset."""
    if any(isinstance(layer, RecordEpisodeStatistics) for layer in layers(batch)):
        raise TypeError(
            f"{who}: expected no RecordEpisodeStatistics around the batch, which would count the "
            f"step that resets a slot; got {batch}. Put it around the environment: "
            "`make_vec(id, n, wrappers=[RecordEpisodeStatistics])`."
        )
    return _around_env(who, batch, NextStep)


def disabled(who: str, batch: AnyBatch) -> "LastObs":
    """The batch for the mode `DISABLED`, to be stepped without auto-reset."""
    return LastObs(_around_env(who, batch, lambda env: env))


class NextStep(Wrapper[Any, Any, Any, Any]):
    """
    The step after the end of an episode begins the next one, and ignores its action.

    Reward, done and info of that step are zero. Wrappers around the batch take it for a step of
    the new episode.
    """

    def step(self, state: Any, action: Any) -> Any:
        begins = state.done

        def zero(x: Any) -> jax.Array:
            x = keys_as_bits(x)
            return jnp.where(begins, jnp.zeros_like(x), x)

        obs, new_state, *results = strip_weak_type(super().step(state, action))
        obs, new_state = begin_if(self.env, None, next_episode, state, begins, obs, new_state)
        return obs, new_state, *jax.tree.map(zero, results)


@chex.dataclass
class LastObsState(BatchedWrapperState):
    """
    State of `LastObs`.

    Attributes
    ----------
    obs : pytree of jax.Array
        The last observations of all slots.
    """

    obs: Any


class LastObs(BatchedWrapper[Any, Any]):
    """Keep the last observations, which a reset of some slots returns for the others."""

    state_class = LastObsState

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        return obs, {"obs": obs}

    def on_step(self, obs: Any, state: Any, rewards: Any, dones: Any, infos: Any, /) -> Any:
        return obs, state.replace(obs=obs), rewards, dones, infos

    def on_reset_where(self, mask: jax.Array, obs: Any, state: Any, /) -> tuple[Any, Any]:
        return obs, state.replace(obs=where_slots(mask, obs, state.obs))


def _around_env(who: str, batch: Any, wrap: Callable[[AnyEnv], AnyEnv]) -> Any:
    """The batch with its environment in a wrapper, if it can leave out its auto-reset."""
    if isinstance(batch, VecEnv) and batch.copied_env is not None:
        env: Any = wrap(batch.env)
        how = batch.compilation
        donate = how is not None and how.donate
        return VecEnv(env, batch.num_envs, jit_compile=how is not None, donate=donate)
    if isinstance(batch, ShardedEnv):
        return shard(_around_env(who, batch.env, wrap), batch.mesh, batch.axis)
    if isinstance(batch, BatchedWrapper) and not isinstance(batch, AgentSlots):
        return cast(Any, batch).around(_around_env(who, batch.env, wrap))
    raise TypeError(
        f"{who}: expected a batch that can leave out its auto-reset, a VecEnv or wrappers around "
        f"one; got {batch}. Use `autoreset_mode=AutoresetMode.SAME_STEP`."
    )
