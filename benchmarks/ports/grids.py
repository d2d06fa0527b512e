# pyright: reportMissingImports=false, reportOperatorIssue=false
"""navix, against MiniGrid, by injected grids."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks.ports.port import Port, made


def whole_grid(id: str, rewards_of_1: bool = False) -> Any:
    """MiniGrid that shows the whole grid, row by row."""
    import gymnasium
    import minigrid  # noqa: F401  # registers
    from minigrid.wrappers import FullyObsWrapper

    reference = FullyObsWrapper(made(id))
    old = reference.observation_space["image"]
    space = gymnasium.spaces.Box(0, 255, np.swapaxes(old.sample(), 0, 1).shape, np.uint8)
    if rewards_of_1:
        reference = gymnasium.wrappers.TransformReward(reference, lambda reward: float(reward > 0))
    show = gymnasium.wrappers.TransformObservation
    return show(reference, lambda obs: np.swapaxes(obs["image"], 0, 1), space)


def inject(reference: Any, state: Any) -> None:
    """The walls, the objects and the agent of navix, by row and column; MiniGrid's are (x, y)."""
    from minigrid.core.grid import Grid
    from minigrid.core.world_object import Wall

    env = reference.unwrapped
    world = state.inner.state
    env.grid = Grid(env.width, env.height)
    env.carrying = None
    for row, column in np.argwhere(world.grid == -1):
        env.grid.set(int(column), int(row), Wall())
    pocket = int(world.entities["player"].pocket[0])
    for kind, entities in world.entities.items():
        for i, (row, column) in enumerate(entities.position):
            if kind == "player":
                env.agent_pos = (int(column), int(row))
                env.agent_dir = int(entities.direction[i])
                continue
            thing = _thing(kind, entities, i)
            if column >= 0:
                env.grid.set(int(column), int(row), thing)
            elif pocket == int(entities.id[i]):
                env.carrying = thing
            for name in ("door", "obj"):  # what the mission is about
                if name in vars(env) and kind in (name, "ball"):
                    setattr(env, name, thing)


def _thing(kind: str, entities: Any, i: int) -> Any:
    from minigrid.core import world_object
    from minigrid.core.constants import IDX_TO_COLOR

    if kind in ("goal", "lava", "wall"):
        return getattr(world_object, kind.title())()
    thing = getattr(world_object, kind.title())(IDX_TO_COLOR[int(entities.colour[i])])
    if kind == "door":
        thing.is_open = bool(entities.open[i])
        thing.is_locked = int(entities.requires[i]) != -1
    return thing


REWARD = "the reward of the goal is 1, not 1 - 0.9 t / T"
DROP = "`drop` (action 4) in front of the goal counts as reaching it: reward 1 and the end"
CAUSES = {
    "Empty-8x8": DROP,
    "DoorKey-8x8": f"{DROP}; an open door is not closed by `toggle`; "
    "the start is always the same; the limit is 256 steps, not 640",
    "FourRooms": f"{DROP}; the limit is 1,444 steps, not 100; "
    "no doorway lies in row 10 or column 10, as one in eight does there",
    "LavaGapS7": f"{DROP}, and in front of lava as falling into it",
    "SimpleCrossingS9N1": DROP,
    "DistShift1": f"{DROP}; walking into lava does not end the episode",
}


def port(name: str, rewards_of_1: bool = True) -> Port:
    original = f"MiniGrid-{name}-v0"
    make = partial(whole_grid, original, rewards_of_1)
    shown = f"{original}, its rewards as 1" if rewards_of_1 else original
    cause = CAUSES[name] if rewards_of_1 else f"{REWARD}; {CAUSES[name]}"
    return Port(f"navix/Navix-{name}-v0", shown, "minigrid", make, {"inject": inject}, cause)


PORTS = {"navix": [port("Empty-8x8", rewards_of_1=False), *(port(name) for name in CAUSES)]}
