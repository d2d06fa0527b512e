# pyright: basic
"""Rules of JaxMARL's games that it does not expose: time limits, ends, keys used twice."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from envrax.interop.peer.types import NO_LIMIT

KEYS_TWICE = {
    "SimpleFacmacMPE": "draws the move of each prey, and the noise of the physics",
    "InTheGrid": "draws the places and directions of the agents",
    "InTheGrid_2p": "draws the places and directions of the agents",
    "InTheMatrix": "draws the places and directions of the agents",
}
"""Classes of JaxMARL that use a PRNG key twice: the draws that share it."""

DEPEND_ON_LIMIT = ("Overcooked", "OvercookedV2", "JaxNav")
"""Classes of JaxMARL whose episodes depend on the limit before it is reached."""


class _Rule(NamedTuple):
    """
    The rules of a family of games.

    Attributes
    ----------
    limit : callable
        The time limit.
    terminated : callable
        Whether a step ends an episode before the limit.
    active : callable, optional
        Which agents act in a state; None for all of them.
    ended : callable, optional
        Which agents ended before their world; None if agents never do.
    idle_action : callable
        The action that is given to JaxMARL for an agent that does not act.
    """

    limit: Callable[[Any], int]
    terminated: Callable[[Any, Any, Any, Any], Any] = lambda peer, before, after, action: False
    active: Callable[[Any, Any], Any] | None = None
    ended: Callable[[Any, Any], Any] | None = None
    idle_action: Callable[[Any], int] = lambda peer: 0


def _alive(after: Any) -> Any:
    return getattr(after, "state", after).unit_alive


def _one_side_is_dead(peer: Any, before: Any, after: Any, action: Any) -> Any:
    alive = _alive(after)
    return ~alive[: peer.num_allies].any() | ~alive[peer.num_allies :].any()


def _inner_times_outer(peer: Any) -> int:
    return peer.num_inner_steps * peer.num_outer_steps


def _was_told(peer: Any, before: Any, _: Any, action: Any) -> Any:
    chosen = jnp.stack([action[agent] for agent in peer.agents])
    return chosen[before.agent_in_room] == peer.game_actions["TELL"]


_SMAX = _Rule(
    lambda peer: peer.max_steps + 1,
    _one_side_is_dead,
    lambda peer, state: _alive(state)[: len(peer.agents)],
    lambda peer, state: ~_alive(state)[: len(peer.agents)],
    # JaxMARL records the actions of dead units. Their only legal one is to stop.
    lambda peer: 0 if peer.action_type == "continuous" else peer.num_movement_actions - 1,
)
_MATRIX_GAME = _Rule(_inner_times_outer)
_RULES = {
    # Here and in SMAX, the counter is compared with the limit before it counts the step.
    "SimpleMPE": _Rule(lambda peer: peer.max_steps + 1),
    "SwitchRiddle": _Rule(
        lambda peer: peer.max_steps,
        _was_told,
        lambda peer, state: jnp.arange(peer.num_agents) == state.agent_in_room,
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
        lambda peer, state: ~(state.done | state.move_term),
        # At the limit, all are done as well.
        lambda peer, state: state.done & (state.term | state.move_term | state.goal_reached),
    ),
    "HanabiEnv": _Rule(
        lambda peer: NO_LIMIT,
        lambda peer, before, after, _: peer.terminal(after),
        lambda peer, state: state.cur_player_idx[jnp.argsort(state.seat_order)],
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
