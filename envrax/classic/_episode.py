"""`EpisodicEnv`, the base of most environments of the suite: keys, step count, time limit."""

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp

from envrax.env import ActSpaceT, ConfigT, Info, JaxEnv, ObsSpaceT, StateT


class EpisodicEnv(JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """An environment defined by three methods: `begin`, `advance` and `observe`."""

    @abstractmethod
    def begin(self, key: jax.Array, **episode: jax.Array) -> StateT:
        """The first state, drawn from `key`; `episode` has the fields of `EnvState`."""

    @abstractmethod
    def advance(self, state: StateT, action: Any) -> tuple[StateT, jax.Array, jax.Array]:
        """The next state (step not counted), the float32 reward, and whether it terminates."""

    @abstractmethod
    def observe(self, state: StateT) -> jax.Array:
        """The observation of a state."""

    def reset(self, rng: jax.Array) -> tuple[jax.Array, StateT]:
        rng, key = jax.random.split(rng)
        state = self.begin(key, rng=rng, step=jnp.int32(0), done=jnp.bool_(False))
        return self.observe(state), state

    def step(
        self, state: StateT, action: Any
    ) -> tuple[jax.Array, StateT, jax.Array, jax.Array, Info]:
        state, reward, terminated = self.advance(state, action)
        step = state.step + 1
        truncated = step >= self.config.max_steps
        done = terminated | truncated
        state = state.replace(step=step, done=done)
        info = {"terminated": terminated, "truncated": truncated}
        return self.observe(state), state, reward, done, info
