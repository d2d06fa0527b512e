"""The attributes of an environment and of everything it wraps: read, compared, restored."""

import dataclasses
import inspect
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, cast

import jax
import numpy as np

from envrax._jax.keys import is_key
from envrax._jax.types import is_traced
from envrax.env import Resource

Attributes = dict[str, Any]


def whole_stack(env: Any) -> Iterator[Any]:
    """An environment or a batch, and everything that it wraps, the outermost first."""
    while isinstance(env, Resource):
        yield env
        env = vars(env).get("env")


def read_attributes(env: Any) -> list[Attributes]:
    """
    The attributes of every environment of a stack and of its class, for a later comparison.

    Arrays, lists, dicts, sets and dataclasses, such as the config, are copied two levels deep.
    """
    return [_copied({**_of_class(type(layer)), **vars(layer)}) for layer in whole_stack(env)]


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


def changed_attributes(before: list[Attributes], after: list[Attributes]) -> list[str]:
    """Names of the attributes that were added, removed, replaced or edited between two readings."""
    absent = object()
    changed = dict[str, None]()
    for old, new in zip(before, after, strict=True):
        names = [k for k in {**old, **new} if not _same(old.get(k, absent), new.get(k, absent))]
        changed.update(dict.fromkeys(names))
    return [*changed]


@contextmanager
def without_cached_properties(env: Any) -> Generator[None]:
    """Clear every `cached_property` of the stack within the block, then restore all attributes."""
    saved: list[tuple[Attributes, Attributes, list[tuple[Any, Any]]]] = []
    for layer in whole_stack(env):
        attributes = cast(Attributes, vars(layer))
        copies = [(x, x.copy()) for x in attributes.values() if type(x) in (dict, list, set)]
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
                (container.extend if type(container) is list else container.update)(copy)


def _copied(x: Any, depth: int = 3) -> Any:
    if isinstance(x, np.ndarray | set):
        return cast(Any, x).copy()
    if not depth or isinstance(x, type):
        return x
    if dataclasses.is_dataclass(x):
        fields: list[str] = [field.name for field in dataclasses.fields(x)]
        x = cast(Any, {name: getattr(x, name, None) for name in fields})
    if type(x) is dict:
        return {k: _copied(v, depth - 1) for k, v in cast(Attributes, x).items()}
    return [_copied(v, depth - 1) for v in x] if type(x) in (list, tuple) else x


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        first = cast(Attributes, a)
        second = cast(Attributes, b)
        return first.keys() == second.keys() and all(_same(first[k], second[k]) for k in first)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, np.ndarray | jax.Array):
        pair: list[Any] = [a, b]
        a, b = (np.asarray(jax.random.key_data(x) if is_key(x) else x) for x in pair)
        same_type = a.shape == b.shape and a.dtype == b.dtype
        return same_type and bool(np.all((a == b) | ((a != a) & (b != b))))  # NaN equals NaN
    try:
        return bool(a == b)
    except Exception:  # whatever the `__eq__` of a user's class raises
        return False
