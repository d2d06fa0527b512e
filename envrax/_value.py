"""Equality by value of things that only know equality by identity, environments for one."""

import copy
import hashlib
import types
from collections.abc import Hashable, Iterable
from enum import Enum
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

# Of these, one object is one value; the last one is what `jax.jit` returns.
_ATOMS: Any = (
    type,
    types.ModuleType,
    types.CodeType,
    Enum,
    np.dtype,
    type(cast(Any, jax.jit)(lambda: None)),
)
_LITERALS = (bool, int, str, bytes, types.NoneType, types.EllipsisType)


class Snapshot(NamedTuple):
    """
    A value, and a copy that keeps having it.

    Attributes
    ----------
    value : Hashable
        Equals that of every other object of equal class and equal contents, followed to any depth:
        arrays count by dtype, shape and bytes, functions by their code and what they close over,
        all else by what pickle would keep.
    copy : Any
        A deep copy. JAX arrays, which nobody can change, are not copied.
    """

    value: Hashable
    copy: Any


def take_snapshot(x: Any) -> Snapshot | None:
    """
    The value of an object, an environment for example, at this moment.

    Returns
    -------
    Snapshot or None
        None where something in `x` has no value to compare, such as a tracer, a lock or an open
        file, or cannot be copied.
    """
    reader = _Reader()
    try:
        value = reader.read(x)
        return Snapshot(value, copy.deepcopy(x, reader.immutable()))
    except Exception:  # whatever the classes of a user raise when they are copied
        return None


class _NoValueError(Exception):
    """Something has no value to compare."""


class _Reader:
    """One walk through an object; it remembers what it has seen."""

    def __init__(self) -> None:
        self._found: dict[int, Hashable] = {}
        self._seen: list[Any] = []  # kept alive, so that no id is given out twice

    def read(self, x: Any) -> Hashable:
        if isinstance(x, _ATOMS):
            return x
        cls = cast(Any, type(cast(object, x)))
        if cls in _LITERALS:
            return cls, x
        if cls in (float, complex):
            return cls, repr(x)  # NaN equals itself here, and -0.0 is not 0.0
        if id(x) not in self._found:
            self._seen.append(x)
            self._found[id(x)] = "cycle", len(self._found)
            self._found[id(x)] = self._composite(x)
        return self._found[id(x)]

    def immutable(self) -> dict[int, Any]:
        """The JAX arrays that were found, by identity."""
        return {id(x): x for x in self._seen if isinstance(x, jax.Array)}

    def _all(self, xs: Iterable[Any]) -> Hashable:
        return tuple(self.read(x) for x in xs)

    def _items(self, mapping: dict[Any, Any]) -> Hashable:
        return self._all(mapping.keys()), self._all(mapping.values())

    def _composite(self, x: Any) -> Hashable:
        cls = cast(Any, type(cast(object, x)))
        if isinstance(x, np.ndarray | np.generic | jax.Array):
            return _array(x)
        if cls in (list, tuple):
            return cls, self._all(x)
        if cls is dict:
            return cls, self._items(x)
        if cls in (set, frozenset):
            return cls, frozenset(self.read(item) for item in x)
        if isinstance(x, types.FunctionType):
            cells = [cell.cell_contents for cell in x.__closure__ or ()]
            scope, defaults = id(x.__globals__), (x.__defaults__, x.__kwdefaults__)
            return x.__code__, scope, self.read(defaults), self._all(cells)
        if isinstance(x, types.MethodType):
            return types.MethodType, self.read(x.__func__), self.read(x.__self__)
        return self._object(x)

    def _object(self, x: Any) -> Hashable:
        """By what pickle keeps of it, and by its attributes where pickle may drop some."""
        cls = cast(Any, type(cast(object, x)))
        try:
            reduced = x.__reduce_ex__(2)
        except Exception as error:
            raise _NoValueError from error
        if isinstance(reduced, str):  # the name of something global
            return cls, reduced
        # Callable, arguments, state; then the items of a list and of a dict, as iterators.
        parts = [[*part] if i > 2 and part is not None else part for i, part in enumerate(reduced)]
        filtered = (
            cls.__reduce__ is object.__reduce__ and cls.__getstate__ is not object.__getstate__
        )
        dropped = self._items(getattr(x, "__dict__", {})) if filtered else None
        return cls, self._all(parts), dropped


def _array(x: Any) -> Hashable:
    if isinstance(x, Tracer) or x.dtype == object:
        raise _NoValueError
    cls = cast(Any, type(cast(object, x)))
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return cls, str(jax.random.key_impl(x)), _array(jax.random.key_data(x))
    weak = isinstance(x, jax.Array) and x.aval.weak_type
    data = np.asarray(x)
    return cls, weak, data.shape, data.dtype, hashlib.sha256(data.tobytes()).digest()
