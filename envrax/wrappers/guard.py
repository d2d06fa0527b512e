"""A wrapper that keeps what is no number away from training."""

from typing import Any

import jax
import jax.numpy as jnp

from envrax._returned import require_tuple
from envrax.env import ActSpaceT, ConfigT, Info, ObsSpaceT, StateT, episode_ended
from envrax.wrappers.base import Wrapper


class NanGuard(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    End the episode in the step whose observation or reward is NaN or infinite.

    That step returns a reward of 0, zeros in place of what was not finite in the observation, and
    `info["non_finite"]`, a bool scalar that is False on all other steps. If the environment tells
    `terminated` and `truncated`, the episode is terminated: its last state is worth nothing. In a
    `VecEnv` the slot begins its next episode, and the other slots never notice.

    Wrap the environment itself, so that statistics and frame stacks above see finite numbers. What
    shows in neither observation nor reward is not noticed, and `info` is passed on as it is.
    """

    def observation(self, obs: Any) -> Any:
        return jax.tree.map(lambda x: jnp.where(_finite(x), x, jnp.zeros_like(x)), obs)

    def step(self, state: StateT, action: Any) -> tuple[Any, StateT, jax.Array, jax.Array, Info]:
        stepped = self.env.step(state, action)
        obs, new_state, reward, done, info = require_tuple(type(self.env).__name__, "step", stepped)
        finite = [jnp.all(_finite(x)) for x in jax.tree.leaves((obs, reward))]
        bad = ~jnp.all(jnp.stack(finite))
        ended = episode_ended(self.env, new_state, done) | bad
        reward, done = jnp.asarray(reward), jnp.asarray(done)
        # A wrapper beneath may have made a discount of `done`: 0 is its end.
        is_bool = done.dtype == jnp.bool_
        if "terminated" in info:
            info = {**info, "terminated": info["terminated"] | bad}
        if "truncated" in info:
            info = {**info, "truncated": info["truncated"] & ~bad}
        return (
            self.observation(obs),
            new_state.replace(done=ended),
            jnp.where(bad, jnp.zeros_like(reward), reward),
            done | bad if is_bool else jnp.where(bad, jnp.zeros_like(done), done),
            {**info, "non_finite": bad},
        )


def _finite(x: Any) -> jax.Array:
    x = jnp.asarray(x)
    return jnp.isfinite(x) if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.ones(x.shape, jnp.bool_)
