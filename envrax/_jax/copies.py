"""Copies of NumPy arrays: a program may read an argument after the call has returned."""

import dataclasses
from operator import attrgetter
from typing import Any, TypeVar

import jax
import numpy as np
from jax.core import Tracer

T = TypeVar("T")


def copy_numpy(tree: T) -> T:
    """
    The same pytree with copies of its NumPy arrays, to which nobody else writes.

    On a CPU, JAX takes the memory of a NumPy array as it is, and reads it when the programs before
    have ended; so does `jnp.array`. With a copy, the caller may write to the array at once.
    """
    for leaf in jax.tree.leaves(tree):
        if isinstance(leaf, np.ndarray):
            return jax.tree.map(lambda x: np.array(x) if isinstance(x, np.ndarray) else x, tree)
    return tree


class StateCopies:
    """
    `copy_numpy` for the states of one program.

    To list the leaves of a state takes a tenth of a step. So the fields of the first state are
    remembered, and whether a later one has fields of the same types is seen at once.
    """

    def __init__(self) -> None:
        self._class: type | None = None
        self._types = frozenset[type]()
        self._fields: Any = None

    def __call__(self, state: T) -> T:
        if self._class is None:
            self._remember(state)
        try:
            if type(state) is self._class and self._types.issuperset(
                map(type, self._fields(state))
            ):
                return state
        except AttributeError:
            pass  # a state around one of another class
        return copy_numpy(state)

    def _remember(self, state: Any) -> None:
        """The types of all fields, none if one may hold an array of NumPy; not those of a trace."""
        fields = _fields_within(state)
        if any([isinstance(x, Tracer) for x in fields.values()]):
            return
        known = [isinstance(x, jax.Array) or _has_fields(x) for x in fields.values()]
        is_quick = len(fields) > 1 and all(known)
        self._class = type(state)
        self._types = frozenset(map(type, fields.values())) if is_quick else self._types
        self._fields = attrgetter(*fields) if is_quick else _no_fields


def _no_fields(_: Any) -> tuple[None]:
    return (None,)


def _has_fields(x: Any) -> bool:
    return dataclasses.is_dataclass(x) and hasattr(x, "__dict__")


def _fields_within(x: Any, path: str = "") -> dict[str, Any]:
    """The fields of a state, and of the states within it, by their dotted names."""
    fields: dict[str, Any] = {}
    if _has_fields(x):
        own: dict[str, Any] = x.__dict__
        for name, value in own.items():
            fields[path + name] = value
            if not isinstance(value, jax.Array):
                fields |= _fields_within(value, f"{path}{name}.")
    return fields
