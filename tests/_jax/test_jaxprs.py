"""Programs as JAX traces them: a renamed primitive would change a choice without a word."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import io_callback

from envrax._jax.jaxprs import (
    branches,
    called_program,
    draws_random_bits,
    equations,
    has_loop,
    origin,
    selects,
)
from envrax._jax.keys import is_key


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


def drawn(key: jax.Array) -> Any:
    return jax.random.uniform(key)


def drawn_by_gamma(key: jax.Array) -> Any:
    return jax.random.gamma(key, 2.0)


@pytest.mark.parametrize("function", [drawn, drawn_by_gamma])
def test_draws_are_recognised_by_their_key(function: Callable[..., Any]) -> None:
    program = jax.make_jaxpr(function)(jax.random.key(0))
    draws = [eqn for eqn in equations(program) if draws_random_bits(eqn)]
    assert draws and all(is_key(eqn.invars[0].aval) for eqn in draws)
    split = jax.make_jaxpr(jax.random.split)(jax.random.key(0))
    assert not any(map(draws_random_bits, equations(split)))


def test_a_selection_is_recognised() -> None:
    program = jax.make_jaxpr(lambda x: jax.lax.select(x > 0, x, -x))(1.0)
    assert [selects(eqn) for eqn in equations(program)] == [False, False, True]


def in_cond(x: jax.Array) -> Any:
    return jax.lax.cond(x > 0, jnp.sin, jnp.cos, x)


@pytest.mark.parametrize("function", [in_while, in_scan, in_cond])
def test_branches_are_recognised(function: Callable[..., Any]) -> None:
    program = jax.make_jaxpr(function)(1.0)
    assert [branches(eqn) for eqn in program.eqns].count(True) == 1


def by_jvp(x: jax.Array) -> Any:
    function: Any = jax.custom_jvp(jnp.sin)
    function.defjvp(lambda x, dx: (function(*x), dx[0]))
    return function(x)


def by_vjp(x: jax.Array) -> Any:
    function: Any = jax.custom_vjp(jnp.sin)
    function.defvjp(lambda x: (function(x), None), lambda _, dy: (dy,))
    return function(x)


@pytest.mark.parametrize("function", [jax.jit(jnp.sin), jax.checkpoint(jnp.sin), by_jvp, by_vjp])
def test_the_program_of_a_call(function: Callable[..., Any]) -> None:
    (eqn,) = jax.make_jaxpr(function)(1.0).eqns
    assert [x.primitive.name for x in equations(called_program(eqn))][-1] == "sin"
    (other,) = jax.make_jaxpr(jax.lax.neg)(1.0).eqns
    assert called_program(other) is None
