"""Keys with dots: wrappers that address leaves by name do not confuse two of them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from helpers import assert_trees_equal

from envrax import Box, DelayObservation, Dict, StartStates
from envrax.testing import CountingEnv


class DottedEnv(CountingEnv):
    """Two entries that have the same name if keys are joined by dots."""

    @property
    def observation_space(self) -> Any:
        wide = Box(0, 1000, (2,), jnp.int32)
        return Dict({"a": Dict(b=wide), "a.b": Box(5, 1005, (2,), jnp.int32)})

    def observe(self, state: Any) -> Any:
        obs = super().observe(state)
        return {"a": {"b": obs}, "a.b": obs + 5}


def test_delayed() -> None:
    env = DelayObservation(DottedEnv(), delay=1)
    first, state = DottedEnv().reset(jax.random.key(0))
    obs, state = env.reset(jax.random.key(0))
    assert_trees_equal(obs, {"a": {"b": np.int32([0, 0])}, "a.b": np.int32([5, 5])})
    assert_trees_equal(env.step(state, 0)[0], first)


class DottedStateEnv(CountingEnv):
    """Two fields of the state have the same name if keys are joined by dots."""

    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        obs, state = super().reset(rng)
        return obs, state.replace(number={"a": {"b": state.number}, "a.b": state.number + 1})

    def observe(self, state: Any) -> Any:
        return jnp.stack([jnp.int32(0), state.step])


def test_started_elsewhere() -> None:
    env = DottedStateEnv()
    saved = env.reset(jax.random.key(0))
    _, state = StartStates(env, lambda rng: saved).reset(jax.random.key(1))
    assert_trees_equal(state.env_state.number, saved[1].number)
