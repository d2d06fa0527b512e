"""Whether an object is still as its class builds it, so that to build it again loses nothing."""

import dataclasses
import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from types import (
    BuiltinMethodType,
    CellType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
)
from typing import Any, cast
from weakref import ReferenceType

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

Pairs = Iterable[tuple[Any, Any]]
Met = dict[tuple[int, int], Any]

_PLAIN = (bool, int, float, complex, str, bytes, np.ndarray, np.generic, jax.Array)
_DICTS: Any = (dict, MappingProxyType)
_SEQUENCES: Any = (tuple, list, deque)
_SETS: Any = (set, frozenset)
_FILLED: Any = (dict, list, set, deque)


def require_unedited(who: str, env: object, build: Callable[[], object]) -> None:
    """Refuse an object with attributes that `build`, which calls its class, does not give it."""
    again = build()
    edited = _edited(env, again)
    if unsure := edited & _opaque(env) & _opaque(again):
        # Objects that no two calls make alike, as a thread with a number, tell of no edit.
        edited -= unsure & _edited(again, build())
    if edited:
        names = [name for name in vars(env) if name in edited]
        raise TypeError(
            f"{who}: expected an environment as its `__init__` builds it; got one whose "
            f"{', '.join(map(repr, names))} would be lost. Set it in `__init__`, or override "
            "`with_config(**fields)`."
        )


def _edited(env: object, again: object) -> set[str]:
    """The attributes that surely differ from those of the object that was built again."""
    mine, fresh = without_cached(env), without_cached(again)
    itself: Met = {(id(env), id(again)): None}  # an attribute may refer to it
    return {k for k, x in mine.items() if k not in fresh or differ(x, fresh[k], itself)}


def _opaque(env: object) -> set[str]:
    """The attributes that are objects: no data, function or environment."""
    data = (NoneType, *_PLAIN, *_DICTS, *_SEQUENCES, *_SETS, FunctionType)
    return {k for k, x in vars(env).items() if not (isinstance(x, data) or hasattr(x, "step"))}


def without_cached(env: object) -> dict[str, Any]:
    """The attributes of an object, but for what a `cached_property` has kept."""
    cls = type(env)
    return {
        name: value
        for name, value in vars(env).items()
        if not isinstance(inspect.getattr_static(cls, name, None), cached_property)
    }


def differ(a: Any, b: Any, met: Met | None = None) -> bool:
    """
    Whether two values surely differ; where that cannot be told, they count as the same.

    What a class makes anew in each call, as a lambda or an object without `__eq__`, is the same if
    its code and all that it holds are.

    Parameters
    ----------
    a, b : Any
        An attribute, and the one of the object that was built again.
    met : dict, optional
        Pairs of ids that count as the same, since they are under comparison already.
    """
    pairs, met = [(a, b)], dict(met or {})
    while pairs:
        a, b = pairs.pop()
        if a is b or (id(a), id(b)) in met:
            continue
        met[id(a), id(b)] = a, b  # kept alive, or another object could be given such an id
        try:
            parts = _parts(a, b, met)
        except Exception:  # what cannot be read, as a deleted array or an empty cell
            continue
        if parts is None:
            return True
        pairs += parts
    return False


def _parts(a: Any, b: Any, met: Met) -> Pairs | None:
    """The pairs that two values come down to; None if the values differ."""
    if isinstance(a, Tracer) or isinstance(b, Tracer):
        return []
    if type(a) is not type(b) and differ(type(a), type(b), met):
        return None
    if isinstance(a, _PLAIN):
        return _parts_of_plain(_as_numpy(a), _as_numpy(b))
    if isinstance(a, _SETS):
        mine, yours = a - b, b - a
        alone = any(all(differ(x, y, met) for y in yours) for x in mine)
        return None if alone or len(mine) != len(yours) else []
    if isinstance(a, _DICTS) and a.keys() == b.keys():
        return [*((a[key], b[key]) for key in a), *_attributes(a, b)]
    if isinstance(a, _DICTS):
        a, b = [*a.items()], [*b.items()]  # keys may be twins too, in the same order
    if isinstance(a, _SEQUENCES):
        return [*zip(a, b, strict=True), *_attributes(a, b)] if len(a) == len(b) else None
    return _parts_of_object(a, b)


def _parts_of_plain(a: Any, b: Any) -> Pairs | None:
    if a.shape != b.shape or a.dtype != b.dtype:
        return None
    if a.dtype == object:
        return zip(a.flat, b.flat, strict=True)
    unequal: Any = (a != b) & ((a == a) | (b == b))  # NaN equals NaN
    return None if np.any(unequal) else []


def _parts_of_object(a: Any, b: Any) -> Pairs | None:
    names = getattr(a, "__name__", None), getattr(b, "__name__", None)
    if isinstance(names[0], str) and names[0] != names[1]:
        return None  # a class, `np.sin`, `math.sin`
    if isinstance(a, FunctionType):
        cells = zip(a.__closure__ or (), b.__closure__ or (), strict=False)
        defaults = (a.__defaults__, b.__defaults__), (a.__kwdefaults__, b.__kwdefaults__)
        return [*defaults, *cells] if a.__code__ == b.__code__ else None
    if isinstance(a, CellType):
        return [(a.cell_contents, b.cell_contents)]
    if isinstance(a, ReferenceType):
        return [(cast(Any, a)(), b())]
    if isinstance(a, MethodType):
        return [(a.__func__, b.__func__), (a.__self__, b.__self__)]
    if isinstance(a, BuiltinMethodType):
        return [(a.__self__, b.__self__)]
    equal = _says_equal(a, b)
    if equal or isinstance(a, ModuleType):
        return []
    attributes = [*_attributes(a, b)]
    return None if equal is False and not attributes else attributes


def _says_equal(a: Any, b: Any) -> bool | None:
    """What an `__eq__` of the class says; None without one, or if it gives no bool."""
    if type(a).__eq__ is object.__eq__:
        return None
    try:
        answer = a == b
    except Exception:  # of arrays, or anything at all
        return None
    return bool(answer) if isinstance(answer, bool | np.bool_) else None


def _attributes(a: Any, b: Any) -> Iterator[tuple[Any, Any]]:
    """What two objects hold by the same names, None for what one of them does not have."""
    mine, yours = _held(a), _held(b)
    for name in {**mine, **yours}:
        x, fresh = mine.get(name), yours.get(name)
        is_empty = fresh is None or fresh is False or (isinstance(fresh, _FILLED) and not fresh)
        if not (name.startswith("_") and is_empty):  # may be a cache, filled since
            yield x, fresh


def _held(x: Any) -> dict[str, Any]:
    """The attributes of an object and its slots, as those of a `functools.partial`."""
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        # What is no field does not count in `==` either, as the id of a module of flax.
        return {f.name: getattr(x, f.name, None) for f in dataclasses.fields(x) if f.compare}
    slots = {
        name
        for base in type(x).__mro__
        for name, member in vars(base).items()
        if isinstance(member, MemberDescriptorType) and not name.endswith("__")
    }
    held = {name: getattr(x, name) for name in slots if hasattr(x, name)}
    return {**held, **without_cached(x)} if hasattr(x, "__dict__") else held


def _as_numpy(x: Any) -> Any:
    is_key = isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(x) if is_key else x)
