"""What a jaxpr computes, as a value: two traces of the same code have equal keys."""

import dataclasses
from types import FunctionType
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
from jax.extend.core import Literal

from envrax._jax.jaxprs import WITH_DERIVATIVE_RULES


class _Same:
    """An object that is equal only to itself, and kept, so that no other one gets its `id`."""

    def __init__(self, x: Any) -> None:
        self._x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._x is other._x

    def __hash__(self) -> int:
        return id(self._x)


class ProgramKey:
    """
    A jaxpr as a value: equal to that of another jaxpr only if both compute the same.

    Their own constants count as inputs; those of a `jit` within compare by identity, and NumPy's,
    which can be edited, by value. Functions that they call on the host compare by `==`, or by their
    code if they close over nothing. Rules for derivatives, which are new in every trace, do not
    count.

    Parameters
    ----------
    program : jax.extend.core.Jaxpr
        The program, without its constants.
    """

    __slots__ = "_hash", "_key"

    def __init__(self, program: Any) -> None:
        numbers = dict[Any, int]()  # of the definition of each variable

        def define(xs: Any) -> tuple[Any, ...]:
            for x in xs:
                numbers[x] = len(numbers)
            return tuple([x.aval for x in xs])

        def read(xs: Any) -> tuple[Any, ...]:
            return tuple(
                [
                    (x.aval, np.asarray(x.val).tobytes()) if isinstance(x, Literal) else numbers[x]
                    for x in xs
                ]
            )

        types: list[Any] = [define(program.constvars), define(program.invars)]
        steps: list[Any] = []
        params: list[Any] = []
        for eqn in program.eqns:
            has_rules = eqn.primitive in WITH_DERIVATIVE_RULES
            params.append(_key(eqn.params["call_jaxpr"] if has_rules else eqn.params))
            params.append(eqn.ctx)
            steps.append((eqn.primitive, read(eqn.invars)))
            types.append(define(eqn.outvars))
        steps.append(read(program.outvars))
        self._key = steps, types, params
        self._hash = hash(tuple([eqn.primitive for eqn in program.eqns]))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ProgramKey) and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash


# Of the programs within programs: JAX caches those of `jit`, so that most occur again.
_KEYS = WeakKeyDictionary[Any, ProgramKey]()


def _key_within(program: Any) -> ProgramKey:
    found = _KEYS.get(program)
    if found is None:
        found = _KEYS[program] = ProgramKey(program)
    return found


def _key(x: Any) -> Any:
    """A parameter of an equation as a value."""
    if isinstance(x, dict):
        return tuple([(name, _key(value)) for name, value in cast(Any, x).items()])
    if isinstance(x, tuple | list):
        return cast(Any, type(cast(Any, x))), tuple([_key(item) for item in cast(Any, x)])
    if hasattr(getattr(x, "jaxpr", x), "eqns"):
        constants = [_constant(constant) for constant in getattr(x, "consts", ())]
        return _key_within(getattr(x, "jaxpr", x)), tuple(constants)
    if isinstance(x, FunctionType) and (not x.__closure__ or _is_of_jax(x)):
        # JAX makes a new function around a callback in every trace, and the user perhaps a lambda.
        cells = [_key(cell.cell_contents) for cell in x.__closure__ or ()]
        defaults = _key((x.__defaults__, x.__kwdefaults__))
        return x.__code__, _Same(x.__globals__), defaults, tuple(cells)
    if dataclasses.is_dataclass(x) and _is_of_jax(type(x)):  # of `pure_callback`
        fields = [_key(getattr(x, field.name)) for field in dataclasses.fields(x)]
        return type(x), tuple(fields)
    if isinstance(x, float):
        return x.hex()
    try:
        hash(x)
    except TypeError:
        return _Same(x)
    return cast(Any, type(x)), x


def _is_of_jax(x: Any) -> bool:
    return (x.__module__ or "").startswith("jax.")  # None for code that was given to `exec`


def _constant(x: Any) -> Any:
    return (x.dtype, x.shape, x.tobytes()) if isinstance(x, np.ndarray) else _Same(x)
