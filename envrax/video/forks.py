"""What belongs to one process, and is forgotten in processes that are forked from it."""

import functools
import os
import weakref
from typing import Any

_HELD: weakref.WeakSet[Any] = weakref.WeakSet()


def forget_in_forks(held: Any) -> None:
    """
    Call `held.forget()` in every process that is forked while `held` exists.

    It drops what belongs to the process that was forked, and touches no file.
    """
    _HELD.add(held)
    _register()


@functools.cache
def _register() -> None:
    if hasattr(os, "register_at_fork"):  # Windows does not fork
        os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    for held in [*_HELD]:
        held.forget()
