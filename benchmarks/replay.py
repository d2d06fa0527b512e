"""Memory and time of a replay buffer of pixels: each frame once, against whole stacks."""

from collections.abc import Callable
from typing import Any

import flashbax
import jax
import jax.numpy as jnp

import envrax
from benchmarks.measure import Table, Values, Work, compare
from benchmarks.memory import pictures, size_of
from envrax import FrameBuffer, Transition, VecEnv

N, STEPS, KEPT, SAMPLES, CALLS = 16, 32, 4096, 32, 32
STACK = 4


def frames() -> list[Values | Table]:
    """Bytes of a million steps; steps of N slots added in a scan; batches sampled from Python."""
    env = VecEnv(pictures(), N)
    at, steps = envrax.rollout(env, None, envrax.start(env, jax.random.key(0)), STEPS)
    steps = jax.block_until_ready(steps._replace(info=None))
    item = jax.tree.map(lambda x: x[0, 0], steps)

    def flashbax_of(size: int) -> Any:
        return flashbax.make_item_buffer(size, 1, SAMPLES, add_batches=True)

    def of_frames(size: int) -> Any:
        with_first = round(size * (1 + STACK * float(steps.done.mean())))  # a stack an episode
        return lambda: FrameBuffer.init(steps, with_first)

    def of_stacks(size: int) -> Any:
        def ring(x: Any) -> jax.Array:
            return jnp.zeros((size // N, N, *x.shape), x.dtype)

        return lambda: (jax.tree.map(ring, item), jnp.int32(0))

    def add_stacks(buffer: Any, row: Transition) -> Any:
        ring, at = buffer
        ring = jax.tree.map(lambda ring, x: ring.at[at].set(x), ring, row)
        return ring, (at + 1) % len(ring.done)

    def sample_stacks(buffer: Any, rng: jax.Array) -> Any:
        ring, _ = buffer
        rng, slot_rng = jax.random.split(rng)
        row = jax.random.randint(rng, (SAMPLES,), 0, len(ring.done))
        slot = jax.random.randint(slot_rng, (SAMPLES,), 0, N)
        return jax.tree.map(lambda x: x[row, slot], ring)

    stored = flashbax_of(KEPT)
    makers: dict[str, Callable[[int], Any]] = {
        "stacks in a ring by hand": of_stacks,
        "stacks, flashbax": lambda size: lambda: flashbax_of(size).init(item),
        "`FrameBuffer`": of_frames,
    }
    adds: dict[str, Any] = {
        "stacks in a ring by hand": add_stacks,
        "stacks, flashbax": stored.add,
        "`FrameBuffer`": lambda buffer, row: buffer.add(jax.tree.map(lambda x: x[None], row)),
    }
    samples: dict[str, Any] = {
        "stacks in a ring by hand": sample_stacks,
        "stacks, flashbax": stored.sample,
        "`FrameBuffer`": lambda buffer, rng: buffer.sample(rng, SAMPLES),
    }
    sizes = {
        name: {"GB": size_of(jax.eval_shape(make(1_000_000))) / 1e9}
        for name, make in makers.items()
    }
    added: dict[str, Work] = {}
    sampled: dict[str, Work] = {}
    for name, make in makers.items():
        run = jax.jit(lambda buffer, add=adds[name]: _scan(add, buffer, steps), donate_argnums=0)
        buffer = jax.jit(make(KEPT))()
        for _ in range(KEPT // (N * STEPS) + 1):
            buffer = run(buffer)
        sampled[name] = _sampling(jax.jit(samples[name]), buffer)
        added[name] = _adding(run, jax.tree.map(jnp.copy, buffer))
    return [
        Values("a million steps of 84 x 84 x 4 bytes", sizes),
        Table(f"add a step of {N} slots", compare(added), STEPS),
        Table(f"sample {SAMPLES} steps", compare(sampled), CALLS),
    ]


def _scan(add: Any, buffer: Any, steps: Transition) -> Any:
    return jax.lax.scan(lambda buffer, row: (add(buffer, row), None), buffer, steps)[0]


def _adding(run: Any, buffer: Any) -> Work:
    def work() -> None:
        nonlocal buffer
        buffer = jax.block_until_ready(run(buffer))

    return work


def _sampling(sample: Any, buffer: Any) -> Work:
    rngs = list(jax.random.split(jax.random.key(1), CALLS))
    return lambda: [jax.block_until_ready(sample(buffer, rng)) for rng in rngs]
