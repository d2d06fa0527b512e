# pyright: reportMissingImports=false
"""`Port`: an id, its original, and how one is compared with the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Port:
    """
    An id and what it is compared with.

    Attributes
    ----------
    id : str
        The id.
    original : str
        Name of the original.
    package : str
        Distribution of the original.
    make : callable or None
        Makes the original; None if it cannot be compared, and `cause` tells why.
    how : dict
        `inject`, `extract` and `act`, as for `match_env`.
    cause : str
        In a few words what differs, or why nothing is compared; written by hand.
    options : dict
        Options of the library, as for `envrax.make`.
    wrappers : sequence of callable
        Wrappers around ours, as for `envrax.make`.
    tables : callable, optional
        From ours to states that random play seldom reaches: tables that are full, nearly full and
        empty. Steps from these are compared too.
    """

    id: str
    original: str
    package: str
    make: Callable[[], Any] | None = None
    how: dict[str, Any] = field(default_factory=dict[str, Any])
    cause: str = ""
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    wrappers: Sequence[Callable[[Any], Any]] = ()
    tables: Callable[[Any], Any] | None = None

    @property
    def name(self) -> str:
        """The names of both sides."""
        return f"{self.id} against {self.original}"


def gymnasium_port(id: str, original: str, cause: str = "", **how: Any) -> Port:
    """A port of an environment of Gymnasium's own."""
    return Port(id, original, "gymnasium", partial(made, original), how, cause)


def made(id: str, **options: Any) -> Any:
    import gymnasium

    return gymnasium.make(id, disable_env_checker=True, **options)


def put_array(*names: str) -> Callable[[Any, Any], None]:
    """The numbers of our state with these names, as the array that is the original's state."""

    def inject(reference: Any, state: Any) -> None:
        state = getattr(state, "inner", state)
        reference.unwrapped.state = np.array([getattr(state, name) for name in names], np.float64)

    return inject
