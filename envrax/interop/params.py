"""A library's parameters: changed by name, and split into constants and arguments."""

import dataclasses
from typing import Any, cast

import jax
from jax.core import Tracer

from envrax._jax.programs import is_traced


class Params:
    """
    Parameters as a compiled program takes them.

    Numbers stay constants of the program; arrays, which may be traced, are arguments.

    Parameters
    ----------
    tree : pytree
        The library's parameters.

    Attributes
    ----------
    arrays : list
        Its leaves, None in place of what is no JAX array.
    """

    def __init__(self, tree: Any) -> None:
        leaves, self._structure = cast(Any, jax.tree.flatten(tree))
        self._constants = [None if isinstance(x, jax.Array) else x for x in leaves]
        self.arrays = [x if isinstance(x, jax.Array) else None for x in leaves]

    def whole(self, arrays: list[Any]) -> Any:
        """The parameters with these arrays."""
        pairs = zip(self._constants, arrays, strict=True)
        leaves = [constant if array is None else array for constant, array in pairs]
        return jax.tree.unflatten(self._structure, leaves)


def concrete(params: Any, default: Any) -> Any:
    """The parameters with the default in place of each value that is traced."""
    if not is_traced(params):
        return params
    return jax.tree.map(lambda x, d: d if isinstance(x, Tracer) else x, params, default)


def changed(who: str, default: Any, changes: Any) -> Any:
    """
    Parameters with some of them changed.

    Parameters
    ----------
    who : str
        The environment, for the message.
    default : pytree
        The library's parameters.
    changes : Any
        None for no change; a dict of changes, of fields or keys of `default`; or all of them.

    Raises
    ------
    TypeError
        If there are no parameters, none of such a name, or those of another class are given.
    """
    if changes is None:
        return default
    if default is None:
        raise TypeError(
            f"{who}: expected no `params`, since the library has none here; got {changes!r}. Pass "
            "keywords of its constructor in `options`."
        )
    if not isinstance(changes, dict):
        if not isinstance(changes, type(default)):
            raise TypeError(
                f"{who}: expected `params` to be a {type(default).__name__}, or a dict of changes "
                f"to one; got {changes!r}. Correct `params`."
            )
        return changes
    given = cast(dict[str, Any], changes)
    fields: Any = getattr(default, "__dataclass_fields__", getattr(default, "_fields", default))
    if unknown := [name for name in given if name not in fields]:
        raise TypeError(
            f"{who}: expected `params` of {', '.join(map(str, fields))}; got "
            f"{', '.join(map(repr, unknown))}. Correct the names."
        )
    if isinstance(default, dict):
        return {**cast(dict[str, Any], default), **given}
    for name, value in given.items():  # 9 in place of 9.8 is a float too
        if type(value) is int and isinstance(getattr(default, name), float):
            given = {**given, name: float(value)}
    if hasattr(default, "_replace"):
        return default._replace(**given)
    return dataclasses.replace(default, **given)
