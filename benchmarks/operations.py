"""What common operations in an environment's step cost."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from benchmarks.measure import Table, Work, compare

CELLS = 100


class Slot(NamedTuple):
    """State of one slot: enough for all of the operations below."""

    rng: jax.Array
    x: jax.Array  # float32
    at: jax.Array  # int32, index of a cell of the board
    board: jax.Array  # float32[CELLS]


def operations(num_envs: int = 4096, steps: int = 100) -> list[Table]:
    """Each operation in place of a step, under `vmap` over the slots, in `lax.scan`."""
    return [
        Table(
            f"{topic}, N = {num_envs}, rollout",
            compare({name: _rollout(op, num_envs, steps) for name, op in ways.items()}),
            steps,
        )
        for topic, ways in TOPICS.items()
    ]


def _rollout(op: Callable[[Slot], Slot], num_envs: int, steps: int) -> Work:
    def begin(rng: jax.Array) -> Slot:
        at = jax.random.randint(rng, (), 0, CELLS, jnp.int32)
        return Slot(rng, jnp.float32(0.1), at, jnp.zeros(CELLS, jnp.float32))

    def step(slots: Slot, _: None) -> tuple[Slot, None]:
        return jax.vmap(op)(slots), None

    start = jax.jit(jax.vmap(begin))(jax.random.split(jax.random.key(0), num_envs))
    run: Any = jax.jit(lambda slots: jax.lax.scan(step, slots, length=steps)[0])
    return lambda: jax.block_until_ready(run(start))


def _arithmetic(s: Slot) -> Slot:
    x = s.x
    for _ in range(10):
        x = 0.99 * x + 0.01
    return s._replace(x=x)


def _split_and_draw(s: Slot) -> Slot:
    rng, key = jax.random.split(s.rng)
    return s._replace(rng=rng, x=jax.random.uniform(key))


def _split_and_draw_four(s: Slot) -> Slot:
    rng, *keys = jax.random.split(s.rng, 5)
    return s._replace(rng=rng, x=sum(map(jax.random.uniform, keys), jnp.float32(0)))


def _draw_four_at_once(s: Slot) -> Slot:
    rng, key = jax.random.split(s.rng)
    return s._replace(rng=rng, x=jnp.sum(jax.random.uniform(key, (4,))))


def _randint(s: Slot) -> Slot:
    rng, key = jax.random.split(s.rng)
    return s._replace(rng=rng, at=jax.random.randint(key, (), 0, CELLS, jnp.int32))


def _uniform_as_integer(s: Slot) -> Slot:
    rng, key = jax.random.split(s.rng)
    return s._replace(rng=rng, at=(CELLS * jax.random.uniform(key)).astype(jnp.int32))


def _work(push: float | jax.Array, s: Slot) -> Slot:
    x = s.x
    for _ in range(4):
        x = jnp.sin(push * x)
    return s._replace(x=x)


_PUSHES = (0.9, 1.1, 1.3, 1.5)


def _next(s: Slot, **changes: jax.Array) -> Slot:
    """The slot at the next cell."""
    return s._replace(at=(s.at + 1) % CELLS, **changes)


def _here(s: Slot) -> jax.Array:
    return jnp.arange(CELLS) == s.at


TOPICS: dict[str, dict[str, Callable[[Slot], Slot]]] = {
    "Randomness": {
        "ten multiplications and additions": _arithmetic,
        "a sine": lambda s: s._replace(x=jnp.sin(s.x)),
        "split a key": lambda s: s._replace(rng=jax.random.split(s.rng)[0]),
        "split, draw one float": _split_and_draw,
        "split into five, draw four floats": _split_and_draw_four,
        "split, draw four floats at once": _draw_four_at_once,
        "split, `randint`": _randint,
        "split, an integer from `uniform`": _uniform_as_integer,
    },
    "Branches": {
        "one branch by itself": partial(_work, 1.1),
        "`lax.cond`, two branches": lambda s: jax.lax.cond(
            s.at == 0, partial(_work, 0.9), partial(_work, 1.1), s
        ),
        "`lax.switch`, four branches": lambda s: jax.lax.switch(
            s.at % 4, [partial(_work, push) for push in _PUSHES], s
        ),
        "choose the numbers, then one branch": lambda s: _work(
            jnp.asarray(_PUSHES, jnp.float32)[s.at % 4], s
        ),
    },
    "A cell of a board of 100": {
        "read, `board[i]`": lambda s: _next(s, x=s.board[s.at]),
        "read, compare with every index": lambda s: _next(
            s, x=jnp.sum(jnp.where(_here(s), s.board, 0.0))
        ),
        "write, `board.at[i].set(x)`": lambda s: _next(s, board=s.board.at[s.at].set(s.x)),
        "write, `where(arange == i, x, board)`": lambda s: _next(
            s, board=jnp.where(_here(s), s.x, s.board)
        ),
    },
}
