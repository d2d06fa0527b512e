"""Programs as JAX traces them: a renamed primitive would change a choice without a word."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import io_callback

from envrax._jax.jaxprs import equations, has_loop, origin


def in_while(x: jax.Array) -> Any:
    return jax.lax.while_loop(lambda x: x < 3, lambda x: x + 1, x)


def in_scan(x: jax.Array) -> Any:
    return jax.lax.scan(lambda x, _: (x + 1, x), x, None, 3)


def in_fori(x: jax.Array) -> Any:
    return jax.lax.fori_loop(0, x.astype(int), lambda _, x: x + 1, x)


def pure(x: jax.Array) -> Any:
    return jax.pure_callback(lambda x: x, x, x, vmap_method="sequential")


def impure(x: jax.Array) -> Any:
    return io_callback(lambda x: None, None, x)


def debug(x: jax.Array) -> Any:
    return jax.debug.callback(lambda x: None, x)


def plain(x: jax.Array) -> Any:
    return jax.lax.cond(x > 0, jnp.sin, jnp.cos, x) + jax.jit(jnp.tanh)(x)


@pytest.mark.parametrize("inside", [lambda f: f, jax.jit, jax.vmap], ids=["", "jit", "vmap"])
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (in_while, True),
        (in_scan, True),
        (in_fori, True),
        (pure, True),
        (impure, True),
        (debug, True),
        (plain, False),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_loops_and_calls_to_the_host(
    inside: Callable[..., Any], function: Callable[..., Any], expected: bool
) -> None:
    x = jnp.ones(3) if inside is jax.vmap else jnp.float32(1)
    assert has_loop(jax.make_jaxpr(inside(function))(x)) == expected


def test_equations_of_inner_programs_are_found() -> None:
    traced = jax.make_jaxpr(jax.jit(lambda x: jax.lax.cond(x > 0, jnp.sin, jnp.cos, x)))(1.0)
    assert {"sin", "cos", "cond"} <= {eqn.primitive.name for eqn in equations(traced)}


@pytest.mark.parametrize("call", [lambda f: f, jax.jit, jax.checkpoint], ids=["", "jit", "remat"])
def test_the_origin_of_a_copy(call: Callable[..., Any]) -> None:
    program = jax.make_jaxpr(lambda x, y: call(lambda x, y: (y, x + y))(x, y))(1.0, 2.0).jaxpr
    copied, computed = program.outvars
    assert origin(program, copied) is program.invars[1]
    assert origin(program, computed) not in program.invars
