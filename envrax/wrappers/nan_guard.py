"""`NanGuard`: end episodes with NaN or infinite values."""

from typing import Any

import jax
import jax.numpy as jnp

from envrax.env import ActSpaceT, ConfigT, Info, JaxEnv, ObsSpaceT, StateT
from envrax.wrappers.base import Wrapper, add_to_info, with_end
from envrax.wrappers.episode import require_no_statistics


class NanGuard(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    End the episode in the step whose observation or reward is NaN or infinite.

    That step returns a reward of 0, zeros in place of the observation's non-finite values, and
    `info["non_finite"]` True; on all other steps it is False. If the environment reports
    `terminated` and `truncated`, that step sets them to True and False. In a `VecEnv` the slot
    begins its next episode, and the other slots are not affected.

    Wrap the environment itself, so that statistics and frame stacks above see finite numbers. Only
    observation and reward are checked. The other entries of `info` are passed on unchanged.

    Raises
    ------
    TypeError
        If there is a `RecordEpisodeStatistics` beneath.
    ValueError
        At the first step, if the environment has an `info["non_finite"]` of its own.
    """

    def __init__(self, env: JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT]) -> None:
        super().__init__(env)
        require_no_statistics(type(self), env)

    def on_episode_start(self, obs: Any, state: Any) -> tuple[Any, StateT]:
        obs, state = super().on_episode_start(obs, state)
        return _without_non_finite(obs), state

    def step(self, state: StateT, action: Any) -> tuple[Any, StateT, jax.Array, jax.Array, Info]:
        obs, new_state, reward, done, info = super().step(state, action)
        finite = [jnp.all(_finite(x)) for x in jax.tree.leaves((obs, reward))]
        bad = ~jnp.all(jnp.stack(finite))
        found = bad | info["non_finite"] if "non_finite" in info else bad
        info = add_to_info(NanGuard, self.env, info, "non_finite", found)
        if "terminated" in info:
            info["terminated"] = info["terminated"] | bad
        if "truncated" in info:
            info["truncated"] = info["truncated"] & ~bad
        return (
            _without_non_finite(obs),
            new_state.replace(done=new_state.done | bad),
            jax.tree.map(lambda x: jnp.where(bad, jnp.zeros_like(x), x), reward),
            with_end(done, bad),
            info,
        )


def _finite(x: Any) -> jax.Array:
    x = jnp.asarray(x)
    return jnp.isfinite(x) if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.ones(x.shape, jnp.bool_)


def _without_non_finite(obs: Any) -> Any:
    return jax.tree.map(lambda x: jnp.where(_finite(x), x, jnp.zeros_like(x)), obs)
