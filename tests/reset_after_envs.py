"""Wrappers that keep something through all episodes of a slot."""

from typing import Any

import chex
import jax
import jax.numpy as jnp

from envrax import EnvState, StatefulWrapper
from envrax.wrappers import WrapperState

F32 = jnp.float32


@chex.dataclass
class CountState(WrapperState[EnvState]):
    """How many episodes the slot has begun, the sum of its rewards, and a large table."""

    episodes: jax.Array
    total: jax.Array
    table: jax.Array


class CountEpisodes(StatefulWrapper[Any, Any, CountState, Any, EnvState]):
    """Counts through all episodes; `total` decays by 10 percent with each."""

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        return obs, {"episodes": jnp.int32(1), "total": F32(0), "table": jnp.zeros(1000, F32)}

    def on_step(self, obs: Any, state: CountState, reward: Any, done: Any, info: Any) -> Any:
        table = state.table.at[0].add(1)
        return obs, state.replace(total=state.total + reward, table=table), reward, done, info

    def reset_after(self, state: CountState) -> tuple[Any, CountState]:
        obs, first = super().reset_after(state)
        kept = dict(episodes=state.episodes + 1, total=state.total * 0.9, table=state.table)
        return obs, first.replace(**kept)
