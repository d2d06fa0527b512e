"""`hands_on`, a mark of methods that only hand on what others do, and who lacks it."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

MethodT = TypeVar("MethodT", bound=Callable[..., Any])


def hands_on(method: MethodT) -> MethodT:
    """
    Mark a method that only hands on what others do, and adds nothing of its own.

    A method that overrides it has no mark, so it counts as one that adds something. The mark is the
    function itself: `functools.wraps` copies it, and what it copies is another function's.
    """
    cast(Any, method).hands_on = method
    return method


def adds(*methods: Any) -> bool:
    """Whether one of these methods, or properties of a class, adds something: it has no mark."""
    for method in methods:
        function = getattr(method, "__func__", getattr(method, "fget", method))
        if getattr(function, "hands_on", None) is not function:
            return True
    return False
