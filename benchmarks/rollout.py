"""Rollouts with random actions, the same for every library, in `lax.scan` or in a Python loop."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from benchmarks.measure import Work
from envrax import VecEnv

# `(state, actions, rng) -> (state, the outputs that a training loop would use)`.
Step = Callable[[Any, Any, jax.Array], tuple[Any, Any]]


class Loop(NamedTuple):
    """
    One way to step a batch.

    Attributes
    ----------
    start : pytree
        The carry at the beginning.
    step : callable
        `(carry, actions, rng) -> (carry, (obs, reward, done))`, for the whole batch.
    mask : callable, optional
        The legal actions of a carry, as `action_space` of the batch wants them.
    """

    start: Any
    step: Step
    mask: Callable[[Any], Any] | None = None


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


def random_step(loop: Loop, space: Any) -> Callable[[Any, None], tuple[Any, Any]]:
    """
    A step of a loop with legal actions drawn inside: the body of a scan over `(state, rng)`.

    All outputs are summed, so that the compiler cannot remove any of them.
    """

    def body(carry: Any, _: None) -> tuple[Any, Any]:
        state, rng = carry
        rng, draw, step = jax.random.split(rng, 3)
        actions = space.sample(draw, *([loop.mask(state)] if loop.mask else []))
        state, (obs, reward, done) = loop.step(state, actions, step)
        # The state of craftax is weakly typed after a reset.
        state = jax.tree.map(_strongly_typed, state, state)
        return (state, rng), tuple(map(total, (obs, reward, done)))

    def total(tree: Any) -> Any:
        return sum(jnp.sum(x, dtype=jnp.float32) for x in jax.tree.leaves(tree))

    return body


class RandomPlay:
    """
    Steps of a loop in one compiled program, with legal actions drawn inside.

    Each call goes on where the last one stopped, so that the slots soon differ in their ages.
    """

    def __init__(self, loop: Loop, space: Any, length: int) -> None:
        body = random_step(loop, space)

        def chunk(_: Any, carry: Any) -> Any:
            state, sums = carry
            state, seen = jax.lax.scan(body, state, None, length)
            return state, jax.tree.map(lambda a, b: a + jnp.sum(b), sums, seen)

        def run(n_chunks: Any, state: Any) -> Any:
            zeros = (jnp.float32(0),) * 3
            return jax.lax.fori_loop(0, n_chunks, chunk, (state, zeros))

        start = loop.start, jax.random.key(2)
        after, _ = jax.eval_shape(body, start, None)
        self._state = jax.tree.map(_strongly_typed, start, after)
        self._run = jax.jit(run)
        self._length = length
        self.steps = 0
        self.reward = 0.0
        self.ends = 0.0

    def __call__(self, n_chunks: int) -> None:
        self._state, (_, reward, ends) = self._run(n_chunks, self._state)
        self.reward += float(reward)
        self.ends += float(ends)
        self.steps += n_chunks * self._length


def _strongly_typed(x: Any, like: Any) -> jax.Array:
    """An array with the dtype of another one."""
    if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        return x
    return jax.lax.convert_element_type(x, like.dtype)
