"""Which arguments of a program are used, through calls, branches and loops."""

from typing import Any

import jax
import jax.numpy as jnp

from envrax._jax.dead_code import arguments_read


def read(function: Any, n: int) -> list[bool]:
    return list(arguments_read(jax.make_jaxpr(function)(*[jnp.float32(1)] * n)))


def test_of_a_plain_function() -> None:
    assert read(lambda x, y: x + 1, 2) == [True, False]
    assert read(lambda x, y: (x * 0, y), 2) == [True, True]


def test_a_value_that_only_dead_code_uses_is_not_read() -> None:
    def step(x: jax.Array, y: jax.Array) -> jax.Array:
        jnp.sin(y)
        return x

    assert read(step, 2) == [True, False]


def test_through_calls_branches_and_loops() -> None:
    def drop(x: jax.Array, y: jax.Array) -> jax.Array:
        return x + 1

    def branch(x: jax.Array, y: jax.Array) -> jax.Array:
        return jax.lax.cond(x > 0, lambda x, y: x, lambda x, y: -x, x, y)

    def loop(x: jax.Array, y: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda c, _: ((c[0] + 1, c[1]), None), (x, y), None, 3)[0][0]

    for function in (jax.jit(drop), jax.checkpoint(drop), branch, loop):
        assert read(function, 2) == [True, False]
