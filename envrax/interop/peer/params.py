"""A library's parameters: changed by name, and split into constants and arguments."""

import dataclasses
from functools import partial
from operator import getitem
from typing import Any, cast

import jax
import numpy as np
from jax.core import Tracer

from envrax._jax.types import is_traced
from envrax.config import conformed, require_known
from envrax.spaces.base import kind


class _StaticPart:
    """The static part of parameters: their structure, and each leaf that is not a JAX array."""

    def __init__(self, structure: Any, constants: list[Any]) -> None:
        self.structure = structure
        self.constants = constants

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _StaticPart) or len(self.constants) != len(other.constants):
            return False
        same = all(map(_is_same_constant, self.constants, other.constants))
        return same and bool(self.structure == other.structure)

    def __hash__(self) -> int:  # a library's own class may be unhashable
        return len(self.constants)


@partial(jax.tree_util.register_dataclass, data_fields=["arrays"], meta_fields=["static"])
@dataclasses.dataclass
class Params:
    """
    Parameters as a compiled program takes them: a pytree of the arrays in them.

    Numbers are constants of the program; arrays, which may be traced, are arguments.
    """

    arrays: list[Any]
    static: _StaticPart

    @classmethod
    def of(cls, tree: Any) -> "Params":
        """The library's parameters, split."""
        leaves, structure = cast(Any, jax.tree.flatten(tree))
        constants = [None if isinstance(x, jax.Array) else x for x in leaves]
        arrays = [x if isinstance(x, jax.Array) else None for x in leaves]
        return cls(arrays, _StaticPart(structure, constants))

    def whole(self) -> Any:
        """The library's parameters."""
        pairs = zip(self.static.constants, self.arrays, strict=True)
        leaves = [constant if array is None else array for constant, array in pairs]
        return jax.tree.unflatten(self.static.structure, leaves)

    def types(self) -> Any:
        """A key that is equal for parameters that differ only in the values of arrays."""
        arrays = [x for x in self.arrays if x is not None]
        shapes = ((x.shape, x.dtype, bool(getattr(x, "weak_type", False))) for x in arrays)
        return jax.tree.structure(self), tuple(shapes)


def _is_same_constant(a: Any, b: Any) -> bool:
    is_number_or_text = type(a) is type(b) and isinstance(a, bool | int | float | str)
    return a is b or (is_number_or_text and repr(a) == repr(b))  # 0.0 is not -0.0


def concrete_or_default(params: Any, default: Any) -> Any:
    """The parameters with the default in place of each value that is traced."""
    if not is_traced(params):
        return params
    return jax.tree.map(lambda x, d: d if isinstance(x, Tracer) else x, params, default)


def with_changes(who: str, default: Any, changes: Any) -> Any:
    """
    Parameters with some of them changed.

    Parameters
    ----------
    who : str
        The environment, for the message.
    default : pytree
        The library's parameters.
    changes : Any
        None for no change; a dict of changes, by field or key of `default`; or other parameters,
        which replace all of them.

    Raises
    ------
    TypeError
        If there are no parameters, a name is unknown, parameters of another class are given, or
        something else in place of a number.
    """
    if changes is None:
        return default
    if default is None:
        raise TypeError(
            f"{who}: expected no `params`, since the library has none here; got {changes!r}. Pass "
            "keywords of its constructor in `options`, and a time limit as `max_steps`."
        )
    if not isinstance(changes, dict):
        if not isinstance(changes, type(default)):
            raise TypeError(
                f"{who}: expected `params` to be a {type(default).__name__}, or a dict of changes "
                f"to one; got {changes!r:.80}. Correct `params`."
            )
        return changes
    given = cast(dict[str, Any], changes)
    names: Any = param_names(default)
    require_known(f"{who}: expected `params` of", given, names, error=TypeError)
    for name, value in given.items():
        before = _value(default, name)
        if isinstance(before, int | float) and not _is_number(value):
            raise TypeError(
                f"{who}: expected `params.{name}` to be a number, as its value {before!r}; got "
                f"{value!r}. Correct it."
            )
        if type(value) is int and isinstance(before, float):  # 9 in place of 9.8 means 9.0
            given = {**given, name: float(value)}
    if isinstance(default, dict):
        return {**cast(dict[str, Any], default), **given}
    if hasattr(default, "_replace"):
        return default._replace(**given)
    return dataclasses.replace(default, **given)


def _is_number(x: Any) -> bool:
    dtype = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
    return np.shape(x) == () and kind(dtype) != "other"


def param_names(params: Any) -> Any:
    """The names of the parameters that can be changed by name."""
    return getattr(params, "__dataclass_fields__", getattr(params, "_fields", params))


def _value(params: Any, name: str) -> Any:
    get: Any = getitem if isinstance(params, dict) else getattr
    return get(params, name)


def numeric_params(params: Any) -> dict[str, Any]:
    """The Python numbers among the parameters, by name."""
    values: dict[str, Any] = {name: _value(params, name) for name in param_names(params) or ()}
    return {name: x for name, x in values.items() if isinstance(x, bool | int | float)}


def fit_changes(who: str, params: Any, changes: Any) -> Any:
    """
    Changes to parameters, with JAX arrays cast to the dtypes of the values that they replace.

    Raises
    ------
    TypeError
        If a name is unknown, or a value does not fit.
    """
    if not isinstance(changes, dict) or params is None:
        return conformed(who, "params", changes, params)
    given = cast(dict[str, Any], changes)
    require_known(f"{who}: expected `params` of", given, param_names(params))
    return {k: conformed(who, f"params.{k}", x, _value(params, k)) for k, x in given.items()}
