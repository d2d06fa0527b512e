"""`ProgramKey`: equal for the same code, and different for programs that differ anywhere."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

from envrax._jax.functions import ProgramKey

X = jnp.arange(3.0)


def key_of(function: Callable[..., Any], *args: Any) -> Any:
    """The key of a new trace: JAX caches those of the same function."""
    return ProgramKey(jax.make_jaxpr(lambda *args: function(*args))(*args or (X,)).jaxpr)


def show(x: Any) -> None:
    print(x)


@jax.custom_vjp
def clipped(x: Any) -> Any:
    return jnp.clip(x, 0.0, 1.0)


clipped.defvjp(lambda x: (clipped(x), x), lambda x, g: (g,))


def printed(x: Any) -> Any:
    jax.debug.callback(lambda x: print(x), x)
    jax.debug.callback(show, x)
    jax.debug.print("{x}", x=x)
    return x


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "scan": lambda x: jax.lax.scan(lambda c, y: (c + y, c), x, jnp.ones((4, 3)))[0],
    "cond": lambda x: jax.lax.cond(x[0] > 0, lambda x: x, lambda x: -x, x),
    "while": lambda x: jax.lax.while_loop(lambda x: x[0] < 9, lambda x: x + 1, x),
    "derivative rules": lambda x: jax.nn.relu(clipped(x)),
    "solve": lambda x: jax.scipy.sparse.linalg.cg(lambda y: y * 2.0, x)[0],
    "random": lambda x: jax.random.normal(jax.random.key(0), (3,)) + x,
    "callbacks": printed,
    "pure callback": lambda x: jax.pure_callback(lambda x: np.sin(x), x, x),
    "io callback": lambda x: io_callback(lambda x: np.sin(x), x, x),
    "NaN": lambda x: jnp.where(x > 0, x, jnp.nan),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_traces_of_the_same_code_are_equal(name: str) -> None:
    first = key_of(PROGRAMS[name])
    again = key_of(PROGRAMS[name])
    assert first == again and hash(first) == hash(again)
    for other in (lambda x: PROGRAMS[name](x) + 1.0, lambda x: PROGRAMS[name](x + 1.0)):
        assert key_of(other) != first


DIFFERENT: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "literal": (lambda x: x * 2.0, lambda x: x * 3.0),
    "sign of zero": (lambda x: x * 0.0, lambda x: x * -0.0),
    "order": (lambda x, y: x - y, lambda x, y: y - x),
    "output": (lambda x: (x, -x), lambda x: (-x, x)),
    "branch": (
        lambda x: jax.lax.cond(x[0] > 0, lambda x: x, lambda x: -x, x),
        lambda x: jax.lax.cond(x[0] > 0, lambda x: -x, lambda x: x, x),
    ),
    "precision": (
        lambda x: jnp.dot(x, x),
        lambda x: jnp.dot(x, x, precision=jax.lax.Precision.HIGHEST),
    ),
    "what a rule is around": (lambda x: jax.nn.relu(x), lambda x: jax.nn.silu(x)),
    "lambda of a callback": (
        lambda x: jax.pure_callback(lambda x: np.sin(x), x, x),
        lambda x: jax.pure_callback(lambda x: np.cos(x), x, x),
    ),
    "callback": (
        lambda x: jax.pure_callback(np.sin, x, x),
        lambda x: jax.pure_callback(np.cos, x, x),
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_has_another_key(name: str) -> None:
    one, other = DIFFERENT[name]
    args = (X, X + 1) if one.__code__.co_argcount == 2 else (X,)
    assert key_of(one, *args) == key_of(one, *args)
    assert key_of(one, *args) != key_of(other, *args)


def test_own_constants_are_inputs_and_those_of_an_inner_jit_are_themselves() -> None:
    a, b = jnp.ones(3), jnp.zeros(3)

    def outer(w: Any) -> Any:
        return key_of(lambda x: x * w.astype(jnp.float32))

    def inner(w: Any) -> Any:
        return key_of(lambda x: jax.jit(lambda x: x * w)(x))

    assert outer(a) == outer(b) != outer(jnp.ones(3, jnp.int32))
    assert inner(a) == inner(a) != inner(b)


def test_arrays_that_can_be_edited_are_read_again() -> None:
    """By an inner `jit` too, which keeps the array itself."""
    table = np.ones(3)
    before = key_of(lambda x: jax.jit(lambda x: x * table)(x))
    if jax.__version_info__ >= (0, 10):  # before it, each trace has an array of its own
        assert key_of(lambda x: jax.jit(lambda x: x * table)(x)) == before
    table[0] = 2
    assert key_of(lambda x: jax.jit(lambda x: x * table)(x)) != before


@pytest.mark.parametrize("by_keyword", [False, True])
def test_defaults_of_a_function_on_the_host(by_keyword: bool) -> None:
    def with_default(n: int) -> Any:
        def at(x: Any, n: int = n) -> None: ...
        def keyword(x: Any, *, n: int = n) -> None: ...

        return key_of(lambda x: jax.debug.callback(keyword if by_keyword else at, x))

    assert with_default(1) == with_default(1) != with_default(2)


def test_a_function_without_a_module() -> None:
    scope: dict[str, Any] = {}
    exec("def make(n):\n    return lambda x: x + n\nfunction = make(1)", scope)
    function = scope["function"]
    one, other = (key_of(lambda x: jax.pure_callback(function, x, x)) for _ in range(2))
    assert one == other


def test_a_function_that_closes_over_something_is_itself() -> None:
    """What it closes over may change while a program runs it."""

    def with_counter() -> Any:
        n = [0]
        return key_of(lambda x: jax.pure_callback(lambda x: x + n[0], x, x))

    assert with_counter() != with_counter()
