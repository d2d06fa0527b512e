"""The attributes of an environment and of everything it wraps: read, compared, restored."""

import dataclasses
import inspect
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cached_property
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import jax
import numpy as np

from envrax._jax.keys import is_key
from envrax._jax.types import is_traced
from envrax.env import Resource

Attributes = dict[str, Any]
Contents = dict[tuple[Any, ...], Any]  # what is in an attribute by path, such as ("key", 0)
Reading = list[dict[str, Contents]]  # by layer of a stack and by attribute

_COPIED = (np.ndarray, bytearray)
_RESTORED = (dict, list, set, deque, Counter, OrderedDict, defaultdict)


def whole_stack(env: Any) -> Iterator[Any]:
    """An environment or a batch, and everything that it wraps, the outermost first."""
    while isinstance(env, Resource):
        yield env
        env = vars(env).get("env")


def read_attributes(env: Any) -> Reading:
    """
    What every environment of a stack and its class hold, for a later comparison.

    Arrays are copied. Standard containers and dataclasses, such as the config, are read to any
    depth; other objects are only known by identity.
    """
    layers = [_of_class(type(x)) | cast(Attributes, vars(x)) for x in whole_stack(env)]
    return [{name: _contents(x) for name, x in layer.items()} for layer in layers]


def _of_class(cls: type) -> Attributes:
    named = [item for base in reversed(cls.__mro__) for item in vars(base).items()]
    return {name: value for name, value in named if not name.startswith("__")}


def traced_attributes(env: Any) -> dict[str, str]:
    """The attributes of a stack that hold a traced value: their names, and as users write them."""
    found: dict[str, str] = {}
    for layer in whole_stack(env):
        of_class = "" if layer is env else f" of {type(layer).__name__}"
        found |= {name: f"`self.{name}`{of_class}" for name in _traced(layer)}
        for cls in type(layer).__mro__:
            found |= {name: f"`{cls.__name__}.{name}`" for name in _traced(cls)}
    return found


def _traced(owner: Any) -> list[str]:
    attributes = cast(Attributes, vars(owner))
    return [name for name, value in attributes.items() if is_traced(value)]


def changed_attributes(before: Reading, after: Reading) -> list[str]:
    """Names of the attributes that were added, removed, replaced or edited between two readings."""
    changed = dict[str, None]()
    for old, new in zip(before, after, strict=True):
        names = [k for k in {**old, **new} if not _same_contents(old.get(k, {}), new.get(k, {}))]
        changed.update(dict.fromkeys(names))
    return [*changed]


@contextmanager
def without_cached_properties(env: Any) -> Generator[None]:
    """Clear every `cached_property` of the stack within the block, then restore all attributes."""
    saved: list[tuple[Attributes, Attributes, list[tuple[Any, Any]]]] = []
    for layer in whole_stack(env):
        attributes = cast(Attributes, vars(layer))
        copies = [(x, x.copy()) for x in attributes.values() if type(x) in _RESTORED]
        saved.append((attributes, attributes.copy(), copies))
        for name in [*attributes]:
            if isinstance(inspect.getattr_static(type(layer), name, None), cached_property):
                del attributes[name]
    try:
        yield
    finally:
        for attributes, before, copies in saved:
            attributes.clear()
            attributes.update(before)
            for container, copy in copies:
                container.clear()
                (getattr(container, "extend", None) or container.update)(copy)


def _contents(attribute: Any) -> Contents:
    """By path the type of each container and a copy of each leaf; a container is opened once."""
    found: Contents = {}
    opened: dict[int, tuple[Any, ...]] = {}
    todo: list[tuple[tuple[Any, ...], Any]] = [((), attribute)]
    for path, x in todo:
        try:
            inside = _inside(x)
        except Exception:  # whatever the `__iter__` of a user's container raises
            inside = None
        if inside is None:
            found[path] = x.copy() if isinstance(x, _COPIED) else x
        elif id(x) in opened:
            found[path] = opened[id(x)]
        else:
            found[path], opened[id(x)] = type(x), path
            todo += [((*path, key), value) for key, value in inside.items()]
    return found


def _inside(x: Any) -> dict[Any, Any] | None:
    """The values in a standard container, by key or place; None for anything else."""
    match x:
        case str() | int() | float() | None | type():  # told soon: there may be millions
            return None
        case dict() | MappingProxyType():
            return dict(x)
        case set() | frozenset():
            return dict.fromkeys(x)
        case list() | tuple() | deque():
            return dict(enumerate(x))
        case np.ndarray():
            return dict(enumerate(x.flat)) if x.dtype == object else None
        case SimpleNamespace() | UserDict() | UserList() | ChainMap():
            return vars(x)
        case _ if dataclasses.is_dataclass(x):
            return {field.name: getattr(x, field.name, None) for field in dataclasses.fields(x)}
        case _:
            return None


def _same_contents(a: Contents, b: Contents) -> bool:
    return a.keys() == b.keys() and all(_same(x, b[path]) for path, x in a.items())


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray | jax.Array):
        pair: list[Any] = [a, b]
        a, b = (np.asarray(jax.random.key_data(x) if is_key(x) else x) for x in pair)
        same_type = a.shape == b.shape and a.dtype == b.dtype
        return same_type and bool(np.all((a == b) | ((a != a) & (b != b))))  # NaN equals NaN
    try:
        return bool(a == b)
    except Exception:  # whatever the `__eq__` of a user's class raises
        return False
