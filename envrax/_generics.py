"""Find the class that a subclass pins for a type parameter of a generic base."""

import sys
from typing import Any, ForwardRef, TypeVar, get_args, get_origin


def pinned_class(cls: type, base: type, param: TypeVar) -> type | None:
    """
    The class that `cls` pins for `param`, a type parameter of the generic `base`.

    Generic classes in between are followed, at any depth. None where nothing concrete is pinned.

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
        The pinned class, or None if `param` is still open or is pinned to no class.
    """
    found = _argument(cls, base, param)
    found = get_origin(found) or found
    return found if isinstance(found, type) else None


def _argument(cls: type, base: type, param: TypeVar) -> Any:
    if cls is base:
        return param
    # `__orig_bases__` is inherited: read the class's own, else it has no generic base of its own.
    for alias in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin = get_origin(alias) or alias
        if not (isinstance(origin, type) and issubclass(origin, base)):
            continue
        found = _argument(origin, base, param)
        if isinstance(found, TypeVar):
            params = getattr(origin, "__parameters__", ())
            arguments = dict(zip(params, get_args(alias), strict=False))
            found = arguments.get(found, found)
        if isinstance(found, ForwardRef | str):
            name = found if isinstance(found, str) else found.__forward_arg__
            found = getattr(sys.modules[cls.__module__], name, None)
        if found is not None and not isinstance(found, TypeVar):
            return found
        if isinstance(found, TypeVar) and found in getattr(cls, "__parameters__", ()):
            return found
    return None
