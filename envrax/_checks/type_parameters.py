"""The class that a subclass of a generic class names for one of its type parameters."""

import sys
from functools import reduce
from typing import Any, ForwardRef, TypeVar, cast, get_args, get_origin


def pinned_class(cls: type, base: type, param: TypeVar) -> type | None:
    """
    The class that `cls` names in the brackets for `param`, a type parameter of `base`.

    Generic classes in between are followed, at any depth.

    Parameters
    ----------
    cls : type
        A subclass of `base`.
    base : type
        The generic class that declares `param`.
    param : TypeVar
        One of the parameters of `base`.

    Returns
    -------
    type or None
        The class, or None if none is named, or one outside the bound of `param`.
    """
    named: dict[type, Any] = {base: param}  # or the parameter of a class that takes its place
    for c in reversed(cls.__mro__):
        # `__orig_bases__` is inherited: read only the entry of this class.
        for alias in c.__dict__.get("__orig_bases__", c.__bases__):
            origin = get_origin(alias) or alias
            if c is base or origin not in named:
                continue
            found = named[origin]
            if isinstance(found, TypeVar):
                parameters: Any = getattr(origin, "__parameters__", ())
                arguments: Any = dict(zip(parameters, get_args(alias), strict=False))
                default = getattr(found, "__default__", None)  # Python 3.13
                found = _evaluated(arguments.get(found, default), c)
                found = get_origin(found) or found
            before = named.get(c)
            pinned = isinstance(found, type) and issubclass(found, param.__bound__ or object)
            if before is None and (pinned or found in getattr(c, "__parameters__", ())):
                named[c] = found
            # Of several bases, one that names a subclass of what those before it name counts.
            if pinned and isinstance(before, type) and issubclass(found, before):
                named[c] = found
    found = named.get(cls)
    return None if isinstance(found, TypeVar) else found


def _evaluated(found: Any, cls: type) -> Any:
    """The target of a forward reference in the body of `cls`, or of a type alias."""
    found = found.__forward_arg__ if isinstance(found, ForwardRef) else found
    if isinstance(found, str):
        scope = sys.modules.get(cls.__module__)
        found = reduce(lambda x, name: getattr(x, name, None), found.split("."), cast(Any, scope))
    while hasattr(found, "__value__"):  # `type Config = ...`, perhaps of another alias
        found = found.__value__
    return found
