# pyright: reportMissingImports=false
"""MinAtar in gymnax and in Pgx, against the package `minatar`."""

from functools import partial
from typing import Any

import jax
import numpy as np

from benchmarks.ports.port import Port, made

N_STATES = 400


def original(name: str) -> Any:
    import minatar.gym

    minatar.gym.register_envs()
    return made(f"MinAtar/{name}-v1", sticky_action_prob=0.0)


def inject(reference: Any, state: Any) -> None:
    """Fields have the same names; lists of objects are arrays in gymnax."""
    game = reference.unwrapped.game.env
    inner = state.inner
    for name in vars(game):
        if name in ("entities", "cars") or not hasattr(inner, name):
            continue
        value = getattr(inner, name)
        setattr(game, name, value.copy() if value.ndim else value.item())
    if hasattr(inner, "entities"):
        game.entities = [row[:4].tolist() if row[4] else None for row in inner.entities]
    if hasattr(inner, "cars"):
        game.cars = inner.cars.tolist()
    game.terminal = False


def tables(env: Any) -> Any:
    """
    States with all entities, bricks or aliens, all but one, a single one, and none.

    Timers, and the player's place, are those that play has: a spawn and a move come soon.
    """
    random = np.random.default_rng(0)
    states = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), N_STATES))[1]
    inner = states.inner

    def kept(n: int) -> Any:
        """For each state which of n are there."""
        counts = np.resize([n, n - 1, 1, 0], N_STATES)
        return random.random((N_STATES, n)).argsort(axis=1) < counts[:, None]

    def timer(most: int) -> Any:
        return random.integers(0, most + 1, N_STATES)

    changes: dict[str, Any] = {}
    if hasattr(inner, "entities"):
        there = kept(8)
        x, right, gold = (random.integers(0, n, there.shape) for n in (10, 2, 2))
        rows = np.broadcast_to(np.arange(1, 9), there.shape)
        entities = np.stack([x, rows, right, gold, np.ones_like(x)], axis=-1)
        changes["entities"] = entities * there[..., None]
        changes |= {"spawn_timer": timer(2), "move_timer": timer(2)}
        changes |= {"player_x": timer(9), "player_y": 1 + timer(7)}
    for name in ("brick_map", "alien_map"):
        if hasattr(inner, name):
            first = np.asarray(getattr(inner, name))
            place = np.flatnonzero(first[0])
            cells = first.reshape(N_STATES, -1).copy()
            cells[:, place] *= kept(len(place)).astype(cells.dtype)
            changes[name] = cells.reshape(first.shape)
    if hasattr(inner, "pos"):
        changes["pos"] = timer(9)
    typed = {k: np.asarray(x, np.asarray(getattr(inner, k)).dtype) for k, x in changes.items()}
    return states.replace(inner=inner.replace(**typed))


LIMIT = "a time limit of its own; observations are floats, not flags"
CAUSES = {"Asterix": f"where rows are taken, a spawn may remove an entity; {LIMIT}"}
NAMES = "Asterix", "Breakout", "Freeway", "SpaceInvaders"
PORTS = {
    "gymnax": [
        Port(
            f"gymnax/{name}-MinAtar",
            f"MinAtar's {name}",
            "minatar",
            partial(original, name),
            {"inject": inject},
            CAUSES.get(name, LIMIT),
            tables=tables,
        )
        for name in NAMES
    ]
}
