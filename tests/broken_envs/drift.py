"""A sound environment. The broken ones extend it and break one rule each."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax import Box, Discrete, EnvConfig, EnvState, JaxEnv

F32 = jnp.float32


@chex.dataclass
class DriftState(EnvState):
    place: jax.Array
    extra: Any


@chex.dataclass
class DriftConfig(EnvConfig):
    max_steps: int = 6


class Drift(JaxEnv[Any, Any, DriftState, DriftConfig]):
    """A place that is pushed by the action and by chance. It keeps every rule."""

    @property
    def observation_space(self) -> Any:
        return Box(-20.0, 20.0, (2,))

    @property
    def action_space(self) -> Any:
        return Discrete(3)

    def observe(self, state: DriftState) -> Any:
        return state.place

    def extra(self) -> Any:
        return jnp.float32(0)

    def next_extra(self, extra: Any) -> Any:
        return extra

    def reset(self, rng: jax.Array) -> Any:
        rng, key = jax.random.split(rng)
        place = jax.random.uniform(key, (2,), F32)
        common = dict(rng=rng, step=jnp.int32(0), done=jnp.bool_(False))
        state = DriftState(place=place, extra=self.extra(), **common)
        return self.observe(state), state

    def step(self, state: DriftState, action: Any) -> Any:
        rng, key = jax.random.split(state.rng)
        push = jnp.asarray(action).astype(F32) - 1.0
        place = jnp.clip(state.place + push + jax.random.uniform(key, (2,), F32), -20.0, 20.0)
        step = state.step + 1
        done = step >= self.config.max_steps
        extra = self.next_extra(state.extra)
        state = state.replace(rng=rng, step=step, done=done, place=place, extra=extra)
        info = {"terminated": jnp.bool_(False), "truncated": done}
        return self.observe(state), state, place[0], done, info

    def render(self, state: DriftState) -> np.ndarray:
        return np.zeros((4, 5, 3), np.uint8)


class Edited(Drift):
    """A step whose outcome is edited."""

    edit: Any  # what a step returns, one by one, to what it returns instead

    def step(self, state: DriftState, action: Any) -> Any:
        return self.edit(*super().step(state, action))
