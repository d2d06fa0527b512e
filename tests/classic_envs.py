"""What the tests of the suite `classic` share."""

from functools import cache
from typing import Any

import jax

from envrax import JaxEnv

Env = JaxEnv[Any, Any, Any, Any]


@cache
def compiled(cls: type[Env]) -> tuple[Env, Any, Any]:
    """An env with its reset and step, compiled once for the whole module."""
    env = cls()
    return env, jax.jit(env.reset), jax.jit(env.step)


def rollout(env: Env, rng: jax.Array, actions: jax.Array) -> Any:
    """Everything a reset and then a step per action give back, the steps stacked."""

    def step(state: Any, action: jax.Array) -> tuple[Any, Any]:
        obs, state, reward, done, info = env.step(state, action)
        return state, (obs, state, reward, done, info)

    obs, state = env.reset(rng)
    return obs, jax.lax.scan(step, state, actions)
