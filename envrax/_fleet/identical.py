"""Whether what JAX traced of two functions is identical, so that one program may serve both."""

from typing import Any, cast

import jax
import numpy as np
from jax.core import ShapedArray, Tracer
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

# What `==` compares in full, between two of one class.
_COMPARED_IN_FULL = (
    *(bool, int, str, bytes, np.dtype, ShapedArray),
    *(jax.sharding.Sharding, jax.sharding.Mesh, jax.sharding.AbstractMesh),
    jax.sharding.PartitionSpec,
)


def are_identical(first: ClosedJaxpr, second: ClosedJaxpr) -> bool:
    """
    Whether two traces are the same program on the same constants, to the bit.

    False when in doubt: callables are the same only if they are one object, and programs with
    effects or callbacks are never the same.

    Parameters
    ----------
    first, second : jax.extend.core.ClosedJaxpr
        From `jax.make_jaxpr`.
    """
    same_program = _identical_jaxprs(first.jaxpr, second.jaxpr)
    return same_program and _all_identical(first.consts, second.consts)


def _identical_jaxprs(a: Any, b: Any) -> bool:
    """Equation by equation, with the variables numbered in the order in which they are bound."""
    if a.effects or b.effects or len(a.eqns) != len(b.eqns):
        return False
    numbers: tuple[dict[Any, int], dict[Any, int]] = {}, {}

    def bind(xs: Any, ys: Any) -> bool:
        for numbered, variables in zip(numbers, (xs, ys), strict=True):
            for variable in variables:
                numbered[variable] = len(numbered)
        return [x.aval for x in xs] == [y.aval for y in ys]

    def identical_atoms(xs: Any, ys: Any) -> bool:
        return len(xs) == len(ys) and all(map(identical_atom, xs, ys))

    def identical_atom(x: Any, y: Any) -> bool:
        if isinstance(x, Literal) or isinstance(y, Literal):
            return type(x) is type(y) and x.aval == y.aval and _identical_values(x.val, y.val)
        return numbers[0][x] == numbers[1][y]

    return (
        bind([*a.constvars, *a.invars], [*b.constvars, *b.invars])
        and all(
            x.primitive is y.primitive
            and "callback" not in x.primitive.name
            and identical_atoms(x.invars, y.invars)
            and _identical_contexts(x.ctx, y.ctx)
            and _identical_values(x.params, y.params)
            and bind(x.outvars, y.outvars)
            for x, y in zip(a.eqns, b.eqns, strict=True)
        )
        and identical_atoms(a.outvars, b.outvars)
    )


def _identical_values(a: Any, b: Any) -> bool:
    """Whether two parameters or constants are the same."""
    if type(a) is not type(b):
        return False
    if isinstance(a, ClosedJaxpr):
        return are_identical(a, b)
    if isinstance(a, Jaxpr):
        return _identical_jaxprs(a, b)
    if a is b:
        return True
    if isinstance(a, Tracer):
        return False
    if isinstance(a, np.ndarray | np.generic | jax.Array) or type(a).__name__ == "TypedNdArray":
        return _identical_arrays(a, b)  # JAX 0.9 has an array class of its own for constants
    if isinstance(a, tuple | list):
        return _all_identical(a, b)
    if isinstance(a, dict):
        return [*a] == [*b] and _all_identical([*a.values()], [*b.values()])
    if isinstance(a, float | complex):
        return repr(a) == repr(b)  # NaN is NaN, and 0.0 is not -0.0
    if type(a).__module__ == "jax._src.flattree":  # since JAX 0.12 a parameter of loops
        return bool(a == b) and repr(a) == repr(b)
    return bool(isinstance(a, _COMPARED_IN_FULL) and a == b)


def _identical_contexts(a: Any, b: Any) -> bool:
    """Whether two equations were traced under the same settings."""
    if a is b:
        return True
    settings = [name for name in cast(Any, type(a)).__slots__ if name != "__weakref__"]
    return all(
        _identical_values(getattr(a, name, None), getattr(b, name, None)) for name in settings
    )


def _all_identical(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(map(_identical_values, a, b))


def _identical_arrays(a: Any, b: Any) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if isinstance(a, jax.Array):
        if a.aval != b.aval or a.sharding != b.sharding or a.committed != b.committed:
            return False
        if jax.numpy.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
    ours, theirs = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    return bool(np.array_equal(ours, theirs))
