"""What belongs to one process, and is forgotten in processes that are forked from it."""

import functools
import os
import weakref
from typing import Protocol


class Forgets(Protocol):
    """Has a method that is called in a forked process."""

    def forget(self) -> None:
        """Drop what belongs to the process that was forked, and touch no file."""


_HELD: weakref.WeakSet[Forgets] = weakref.WeakSet()


def forget_in_forks(held: Forgets) -> None:
    """Call `held.forget()` in every process that is forked while `held` exists."""
    _HELD.add(held)
    _register()


@functools.cache
def _register() -> None:
    if hasattr(os, "register_at_fork"):  # Windows does not fork
        os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    for held in [*_HELD]:
        held.forget()
