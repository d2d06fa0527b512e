"""Rollouts with random actions, the same for every library, in `lax.scan` or in a Python loop."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.measure import Work
from envrax import VecEnv

# `(state, actions, rng) -> (state, the outputs that a training loop would use)`.
Step = Callable[[Any, Any, jax.Array], tuple[Any, Any]]


def in_scan(state: Any, step: Step, num_envs: int, n_actions: int, steps: int) -> Work:
    """
    `steps` steps in one compiled program, with actions drawn beforehand.

    All outputs are summed, so that the compiler cannot remove any of them.
    """

    def body(carry: Any, actions: jax.Array) -> tuple[Any, Any]:
        state, rng = carry
        rng, step_rng = jax.random.split(rng)
        state, seen = step(state, actions, step_rng)
        return (state, rng), jax.tree.map(jnp.sum, seen)

    shape = steps, num_envs
    actions = jax.random.randint(jax.random.key(1), shape, 0, n_actions, jnp.int32)
    run = jax.jit(lambda carry: jax.lax.scan(body, carry, actions))
    return lambda: jax.block_until_ready(run((state, jax.random.key(2))))


def in_python(state: Any, step: Callable[[Any], Any], steps: int) -> Work:
    """`steps` calls of a compiled step; each takes the state that the last one returned."""

    def work() -> object:
        current = state
        for _ in range(steps):
            current = step(current)
        return jax.block_until_ready(current)

    return work


def of_vec_env(
    vec_env: VecEnv[Any, Any, Any, Any], n_actions: int, steps: int, start: Any = None
) -> Work:
    """A rollout of a `VecEnv`, in `lax.scan`, from a given state or from a reset."""

    def step(state: Any, actions: Any, rng: jax.Array) -> Any:
        obs, new_state, reward, done, _info = vec_env.step(state, actions)
        return new_state, (obs, reward, done)

    start = vec_env.reset(jax.random.key(0))[1] if start is None else start
    return in_scan(start, step, vec_env.num_envs, n_actions, steps)
