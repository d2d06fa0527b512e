# pyright: basic
"""Which parts of a state the end of a step begins anew."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from envrax.interop.protocol.dependence import begins_anew

AGAIN: dict[str, Any] = {
    "where, from a key": lambda s, done, key: jnp.where(done, jax.random.normal(key), s["x"] + 1),
    "where, a constant": lambda s, done, key: jnp.where(done, 0.0, s["x"] + 1),
    "a product": lambda s, done, key: (s["x"] + 1) * (1 - done.astype(float)),
    "cond": lambda s, done, key: jax.lax.cond(done, lambda: 0.0, lambda: s["x"] + 1),
    "from a part that stays": lambda s, done, key: jnp.where(done, s["level"], s["x"] + 1),
    "in a program of its own": jax.jit(lambda s, done, key: jnp.where(done, 0.0, s["x"] + 1)),
    "by the same expression again": lambda s, done, key: jnp.where(s["x"] > 3, 0.0, s["x"] + 1),
    "while_loop": lambda s, done, key: jax.lax.while_loop(
        lambda carry: carry[0], lambda _: (jnp.bool_(False), 0.0), (done, s["x"] + 1)
    )[1],
    "scan": lambda s, done, key: jax.lax.scan(
        lambda x, row: (jnp.where(done, 0.0, x + row), None), s["x"], jnp.arange(2.0)
    )[0],
    "from a key of a counter": lambda s, done, key: jnp.where(
        done, jax.random.normal(jax.random.fold_in(jax.random.key(1), s["x"].astype(int))), s["x"]
    ),
    "read by the next operation": lambda s, done, key: 2 * jnp.where(done, 0.0, s["x"] + 1),
}
GOES_ON: dict[str, Any] = {
    "a choice of two that go on": lambda s, done, key: jnp.where(done, s["x"], s["x"] + 1),
    "a count of ends": lambda s, done, key: s["x"] + done.astype(float),
    "another flag": lambda s, done, key: jnp.where(s["x"] > 9, 0.0, s["x"] + 1),
    "scan": lambda s, done, key: jax.lax.scan(
        lambda x, row: (x + row * s["level"], x), s["x"], jnp.arange(2.0)
    )[0],
    "a flag of flags": lambda s, done, key: (done | (s["x"] < 0)).astype(jnp.float32),
    "no flag": lambda s, done, key: s["x"] + jax.random.normal(key),
}


def begins(move: Any) -> list[bool]:
    def step(key: Any, state: Any) -> Any:
        done = state["x"] > 3
        return done.astype(jnp.float32), {"level": state["level"], "x": move(state, done, key)}

    state = {"level": 5.0, "x": 1.0}
    return begins_anew(jax.make_jaxpr(step)(jax.random.key(0), state), 1, 1)


@pytest.mark.parametrize("how", AGAIN)
def test_what_begins_anew(how: str) -> None:
    assert begins(AGAIN[how]) == [False, True]


@pytest.mark.parametrize("how", GOES_ON)
def test_what_goes_on(how: str) -> None:
    assert begins(GOES_ON[how]) == [False, False]
