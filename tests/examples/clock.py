"""An environment whose values are known: reward 1 on every step, until time is up."""

from typing import Any

import chex
import jax
import jax.numpy as jnp

from envrax import Box, Discrete, EnvConfig, EnvState, JaxEnv


@chex.dataclass
class ClockConfig(EnvConfig):
    max_steps: int = 8
    terminates: bool = False


class Clock(JaxEnv[Box, Discrete, EnvState, ClockConfig]):
    """The observation never changes, so that a critic learns one number."""

    @property
    def observation_space(self) -> Box:
        return Box(0.0, 1.0, (1,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def reset(self, rng: jax.Array) -> tuple[jax.Array, EnvState]:
        return jnp.ones(1), EnvState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False))

    def step(self, state: EnvState, action: jax.Array) -> tuple[Any, ...]:
        step = state.step + 1
        state = state.replace(step=step, done=step >= self.config.max_steps)
        dies = jnp.bool_(self.config.terminates)
        info = {"terminated": state.done & dies, "truncated": state.done & ~dies}
        return jnp.ones(1), state, jnp.float32(1.0), state.done, info
