"""`reset` and `step` of several members as one pair of pure functions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from envrax._jax.keys import split_key
from envrax._jax.returned import require_tuple


@dataclass(frozen=True)
class Fused:
    """
    The members of a fleet that are compiled together.

    Attributes
    ----------
    resets, steps : dict
        `reset` and `step` of each of these members, by its position in the fleet.
    names : list of str
        A name for every member of the fleet, for messages: "MultiEnv member 0".
    """

    resets: dict[int, Callable[..., Any]]
    steps: dict[int, Callable[..., Any]]
    names: list[str]

    def reset(self, rng: jax.Array) -> tuple[dict[int, Any], dict[int, jax.Array]]:
        """First observations and states of these members, and the keys of the others."""
        rngs = split_key(rng, len(self.names))
        begun: dict[int, Any] = {}
        others: dict[int, jax.Array] = {}
        for i, name in enumerate(self.names):
            if i in self.resets:
                begun[i] = call_member(name, "reset", self.resets[i], rngs[i])
            else:
                others[i] = rngs[i]
        return begun, others

    def step(
        self, donated: dict[int, Any], kept: dict[int, Any], actions: dict[int, Any]
    ) -> dict[int, Any]:
        """The results of each member, from the states that may be overwritten and the others."""
        stepped: dict[int, Any] = {}
        for i, state in (donated | kept).items():
            stepped[i] = call_member(self.names[i], "step", self.steps[i], state, actions[i])
        return stepped


def call_member(name: str, method: str, function: Callable[..., Any], *args: Any) -> Any:
    """`reset` or `step` of a member; an error gets a note with the name of the member."""
    return require_tuple(name, method, noting(name, function, *args))


def noting(name: str, function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    """Call `function`; an error gets a note with the name of the member."""
    try:
        return function(*args, **named)
    except Exception as error:
        error.add_note(f"This was in {name}.")
        raise
