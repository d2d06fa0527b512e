"""The attributes of an environment and of all that it wraps: compared, and restored."""

import dataclasses
import inspect
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, cast

import jax
import numpy as np

from envrax._jax.keys import is_key
from envrax.env import Resource

Attributes = dict[str, Any]


def whole_stack(env: Any) -> Iterator[Any]:
    """An environment or a batch, and everything that it wraps, the outermost first."""
    while isinstance(env, Resource):
        yield env
        env = vars(env).get("env")


def read_attributes(env: Any) -> list[Attributes]:
    """
    The attributes of every environment of a stack, to be compared later.

    Arrays, lists, dicts, sets and dataclasses, such as the config, are copied two levels deep.
    """
    return [_contents(vars(layer)) for layer in whole_stack(env)]


def changed_attributes(before: list[Attributes], after: list[Attributes]) -> list[str]:
    """Names of the attributes that were added, removed, replaced or edited in between."""
    absent = object()
    changed = dict[str, None]()
    for old, new in zip(before, after, strict=True):
        names = [k for k in {**old, **new} if not _same(old.get(k, absent), new.get(k, absent))]
        changed.update(dict.fromkeys(names))
    return [*changed]


@contextmanager
def as_first_built(env: Any) -> Generator[None]:
    """Empty every `cached_property` of the stack for the block, then restore all attributes."""
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


def _contents(x: Any, depth: int = 3) -> Any:
    if isinstance(x, np.ndarray | set):
        return cast(Any, x).copy()
    if not depth or isinstance(x, type):
        return x
    if dataclasses.is_dataclass(x):
        fields: list[str] = [field.name for field in dataclasses.fields(x)]
        x = cast(Any, {name: getattr(x, name, None) for name in fields})
    if type(x) is dict:
        return {k: _contents(v, depth - 1) for k, v in cast(Attributes, x).items()}
    return [_contents(v, depth - 1) for v in x] if type(x) in (list, tuple) else x


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        mine = cast(Attributes, a)
        yours = cast(Attributes, b)
        return mine.keys() == yours.keys() and all(_same(mine[k], yours[k]) for k in mine)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, np.ndarray | jax.Array):
        pair: list[Any] = [a, b]
        a, b = (np.asarray(jax.random.key_data(x) if is_key(x) else x) for x in pair)
        alike = a.shape == b.shape and a.dtype == b.dtype
        return alike and bool(np.all((a == b) | ((a != a) & (b != b))))  # NaN equals NaN
    try:
        return bool(a == b)
    except Exception:  # whatever the `__eq__` of a user's class raises
        return False
