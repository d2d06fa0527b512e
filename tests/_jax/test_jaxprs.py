"""Programs as JAX traces them: a renamed primitive would change a choice without a word."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

from envrax._jax.dead_code import arguments_read
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


def in_cond(x: jax.Array) -> Any:
    return jax.lax.cond(x > 0, jnp.sin, jnp.cos, x)


LOOPS: dict[str, tuple[Callable[..., Any], bool]] = {
    "while": (in_while, True),
    "scan": (in_scan, True),
    "fori": (lambda x: jax.lax.fori_loop(0, x.astype(int), lambda _, x: x + 1, x), True),
    "pure": (lambda x: jax.pure_callback(np.sin, x, x, vmap_method="sequential"), True),
    "impure": (lambda x: io_callback(lambda x: None, None, x), True),
    "debug": (lambda x: jax.debug.callback(lambda x: None, x), True),
    "plain": (lambda x: in_cond(x) + jax.jit(jnp.tanh)(x), False),
}


@pytest.mark.parametrize("inside", [lambda f: f, jax.jit, jax.vmap], ids=["", "jit", "vmap"])
@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_calls_to_the_host(inside: Callable[..., Any], name: str) -> None:
    function, expected = LOOPS[name]
    x = jnp.ones(3) if inside is jax.vmap else jnp.float32(1)
    assert has_loop(jax.make_jaxpr(inside(function))(x)) == expected


@pytest.mark.parametrize("call", [lambda f: f, jax.jit, jax.checkpoint], ids=["", "jit", "remat"])
def test_the_origin_of_a_copy(call: Callable[..., Any]) -> None:
    program = jax.make_jaxpr(lambda x, y: call(lambda x, y: (y, x + y))(x, y))(1.0, 2.0).jaxpr
    copied, computed = program.outvars
    assert origin(program, copied) is program.invars[1]
    assert origin(program, computed) not in program.invars


@pytest.mark.parametrize("draw", [jax.random.uniform, partial(jax.random.gamma, a=2.0)])
def test_draws_are_recognised_by_their_key(draw: Callable[..., Any]) -> None:
    program = jax.make_jaxpr(draw)(jax.random.key(0))
    draws = [eqn for eqn in equations(program) if draws_random_bits(eqn)]
    assert draws and all(is_key(eqn.invars[0].aval) for eqn in draws)
    split = jax.make_jaxpr(jax.random.split)(jax.random.key(0))
    assert not any(map(draws_random_bits, equations(split)))


def test_a_selection_is_recognised() -> None:
    program = jax.make_jaxpr(lambda x: jax.lax.select(x > 0, x, -x))(1.0)
    assert [selects(eqn) for eqn in equations(program)] == [False, False, True]


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


def drop(x: jax.Array, y: jax.Array) -> jax.Array:
    jnp.sin(y)
    return x + 1


def branch(x: jax.Array, y: jax.Array) -> jax.Array:
    return jax.lax.cond(x > 0, lambda x, y: x, lambda x, y: -x, x, y)


def loop(x: jax.Array, y: jax.Array) -> jax.Array:
    return jax.lax.scan(lambda c, _: ((c[0] + 1, c[1]), None), (x, y), None, 3)[0][0]


@pytest.mark.parametrize("function", [drop, jax.jit(drop), jax.checkpoint(drop), branch, loop])
def test_an_argument_that_is_not_read(function: Callable[..., Any]) -> None:
    assert list(arguments_read(jax.make_jaxpr(function)(1.0, 1.0))) == [True, False]
    with_output = jax.make_jaxpr(lambda x, y: (function(x, y), y))(1.0, 1.0)
    assert list(arguments_read(with_output)) == [True, True]
