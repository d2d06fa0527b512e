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
    found = _argument(cls, base, param)
    return None if isinstance(found, TypeVar) else found


def _argument(cls: type, base: type, param: TypeVar) -> Any:
    """
    The class that `cls` names, or the type parameter of `cls` that takes its place.

    Of several bases, one that names a subclass of what the bases before it name counts.
    """
    if cls is base:
        return param
    first: Any = None
    # `__orig_bases__` is inherited: read only the entry of this class.
    for alias in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin = get_origin(alias) or alias
        if not (isinstance(origin, type) and issubclass(origin, base)):
            continue
        found = _argument(origin, base, param)
        if isinstance(found, TypeVar):
            parameters: Any = getattr(origin, "__parameters__", ())
            arguments: Any = dict(zip(parameters, get_args(alias), strict=False))
            default = getattr(found, "__default__", None)  # Python 3.13
            found = _evaluated(arguments.get(found, default), cls)
            found = get_origin(found) or found
        pinned = isinstance(found, type) and issubclass(found, param.__bound__ or object)
        if first is None and (pinned or found in getattr(cls, "__parameters__", ())):
            first = found
        if pinned and isinstance(first, type) and issubclass(found, first):
            first = found
    return first


def _evaluated(found: Any, cls: type) -> Any:
    """The target of a forward reference in the body of `cls`, or of a type alias."""
    found = found.__forward_arg__ if isinstance(found, ForwardRef) else found
    if isinstance(found, str):
        scope = sys.modules.get(cls.__module__)
        found = reduce(lambda x, name: getattr(x, name, None), found.split("."), cast(Any, scope))
    while hasattr(found, "__value__"):  # `type Config = ...`, perhaps of another alias
        found = found.__value__
    return found
