"""Which parameters a function has."""

import contextlib
import inspect
from types import FunctionType
from typing import Any


def accepts(function: Any, names: tuple[str, ...], given: int) -> tuple[str, ...]:
    """The `names` that a function takes, after its first `given` parameters, and not yet bound."""
    if type(function) is FunctionType and not vars(function):  # the usual case, without `inspect`
        code = function.__code__
        n = code.co_argcount
        free = code.co_varnames[min(given, n) : n + code.co_kwonlyargcount]
        return tuple(filter(free.__contains__, names))
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return ()
    free = [p.name for i, p in enumerate(parameters) if i >= given or p.kind is p.KEYWORD_ONLY]
    bound = getattr(function, "keywords", {})  # the signature of a `partial` has them too
    return tuple(name for name in names if name in free and name not in bound)


def require_parameters(expected: str, function: Any, *args: Any, **kwargs: Any) -> None:
    """Raise a TypeError for a function that cannot be called like this."""
    with contextlib.suppress(ValueError):  # some functions tell no signature
        signature = inspect.signature(function)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{expected}; got {signature}: {error}.") from None
