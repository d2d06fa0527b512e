# pyright: basic
"""Facts of JaxMARL's games that it does not expose: time limits, other ends, keys used twice."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

KEYS_TWICE = {
    "SimpleFacmacMPE": "draws the move of each prey, and the noise of the physics",
    "InTheGrid": "draws the places and directions of the agents",
    "InTheGrid_2p": "draws the places and directions of the agents",
    "InTheMatrix": "draws the places and directions of the agents",
}
"""Classes of JaxMARL that use a PRNG key twice, and for which draws."""


SEE_THE_LIMIT = ("Overcooked", "OvercookedV2", "JaxNav")
"""Classes of JaxMARL whose episodes depend on the limit before it is reached: they get ours."""


class _Rule(NamedTuple):
    """The time limit of a family of games, and whether a step ends an episode otherwise."""

    limit: Callable[[Any], int]
    over: Callable[[Any, Any, Any, Any], Any] = lambda peer, before, after, action: False


def _one_side_is_dead(peer: Any, before: Any, after: Any, action: Any) -> Any:
    alive = getattr(after, "state", after).unit_alive
    return ~alive[: peer.num_allies].any() | ~alive[peer.num_allies :].any()


def _inner_times_outer(peer: Any) -> int:
    return peer.num_inner_steps * peer.num_outer_steps


_SMAX = _Rule(lambda peer: peer.max_steps + 1, _one_side_is_dead)
_MATRIX_GAME = _Rule(_inner_times_outer)
_RULES = {
    # Its counter is compared before it counts the step, also in SMAX.
    "SimpleMPE": _Rule(lambda peer: peer.max_steps + 1),
    "SwitchRiddle": _Rule(
        lambda peer: peer.max_steps,
        lambda peer, before, _, action: action[before.agent_in_room] == peer.game_actions["TELL"],
    ),
    "SMAX": _SMAX,
    "EnemySMAX": _SMAX,
    "MABraxEnv": _Rule(
        lambda peer: -(-peer.episode_length // peer.action_repeat),
        lambda peer, before, after, _: after.done * (1 - after.info["truncation"]) > 0,
    ),
    "InTheGrid": _MATRIX_GAME,
    "InTheGrid_2p": _MATRIX_GAME,
    "InTheMatrix": _MATRIX_GAME,
    "CoinGame": _MATRIX_GAME,
    "Overcooked": _Rule(lambda peer: peer.max_steps),
    "OvercookedV2": _Rule(lambda peer: peer.max_steps),
    "JaxNav": _Rule(
        lambda peer: peer.max_steps,
        lambda peer, before, after, _: jnp.all(after.move_term | after.goal_reached | before.done),
    ),
}


def rule_of(peer: Any) -> _Rule | None:
    """The rule of a game of JaxMARL; None if its step is not JaxMARL's own."""
    if not _is_its_own(peer.step_env):
        return None
    families = [x for x in type(peer).__mro__ if x.__name__ in _RULES and _is_its_own(x)]
    return _RULES[families[0].__name__] if families else None


def _is_its_own(x: Any) -> bool:
    return str(getattr(x, "__module__", "")).startswith("jaxmarl.")


def is_a(peer: Any, name: str) -> bool:
    """Whether a game is of a class of JaxMARL, given by name."""
    return any(x.__name__ == name and _is_its_own(x) for x in type(peer).__mro__)
