# pyright: reportMissingImports=false
"""MinAtar in gymnax and in Pgx, against the package `minatar`."""

from functools import partial
from typing import Any

from benchmarks.ports.port import Port, made


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


LIMIT = "a time limit of its own; observations are floats, not flags"
NAMES = "Asterix", "Breakout", "Freeway", "SpaceInvaders"
PORTS = {
    "gymnax": [
        Port(
            f"gymnax/{name}-MinAtar",
            f"MinAtar's {name}",
            "minatar",
            partial(original, name),
            {"inject": inject},
            LIMIT,
        )
        for name in NAMES
    ]
}
