# pyright: reportUnknownVariableType=false
"""Maze: a new maze in every episode, from pixels."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax.classic._draw import CORAL, INK, PAPER, TEAL, Canvas, tile_image
from envrax.env import EnvConfig, EnvState
from envrax.episodic_env import EpisodicEnv
from envrax.spaces import Box, Discrete


@chex.dataclass
class MazeState(EnvState):
    """`walls`, a bool map of tiles, True for a wall; row and column of the agent, int32 scalars."""

    walls: jax.Array
    row: jax.Array
    column: jax.Array


@chex.dataclass
class MazeConfig(EnvConfig):
    """Cells along a side, and the cost of a step."""

    max_steps: int = 200
    size: int = 9
    step_cost: float = 0.01


def carve(key: jax.Array, size: int) -> jax.Array:
    """
    Dig a random maze depth-first. Exactly one path connects any two cells.

    Parameters
    ----------
    key : jax.Array
        PRNG key.
    size : int
        Cells along a side. They are the tiles with odd coordinates; walls lie between them.

    Returns
    -------
    jax.Array
        bool map of shape `(2 * size + 1, 2 * size + 1)`, True for wall.
    """
    # A border of cells that count as dug keeps the digger inside. `came_from` holds the cell from
    # which each cell was dug, so that the digger can go back; -1 means not dug yet.
    width = size + 2
    inner = np.zeros((width, width), bool)
    inner[1:-1, 1:-1] = True
    start = width + 1
    came_from = jnp.where(inner.ravel(), jnp.int32(-1), jnp.int32(0)).at[start].set(start)
    taste = jax.random.uniform(key, (width * width, 4), jnp.float32)
    around = np.array([-width, width, -1, 1], np.int32)

    def dig(_: Any, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        cell, came_from = carry
        ahead = cell + around
        appeal = jnp.where(came_from[ahead] < 0, taste[cell], -1.0)
        stuck = jnp.max(appeal) < 0.0
        following = jnp.where(stuck, came_from[cell], ahead[jnp.argmax(appeal)])
        origin = jnp.where(stuck, came_from[following], cell)
        return following, came_from.at[following].set(origin)

    # Each cell except the first is entered once and left once: the number of iterations is known.
    dug: tuple[jax.Array, jax.Array]
    dug = jax.lax.fori_loop(0, 2 * (size**2 - 1), dig, (jnp.int32(start), came_from))

    index = np.arange(width * width, dtype=np.int32).reshape(width, width)[1:-1, 1:-1]
    origin = dug[1].reshape(width, width)[1:-1, 1:-1]
    across = (origin[:, 1:] == index[:, :-1]) | (origin[:, :-1] == index[:, 1:])
    down = (origin[1:] == index[:-1]) | (origin[:-1] == index[1:])
    walls = jnp.ones((2 * size + 1, 2 * size + 1), bool).at[1::2, 1::2].set(False)
    return walls.at[1::2, 2:-1:2].set(~across).at[2:-1:2, 1::2].set(~down)


class Maze(EpisodicEnv[Box, Discrete, MazeState, MazeConfig]):
    """
    Find the way from one corner of a maze to the opposite one; each episode has a new maze.

    | observation | bounds |
    |---|---|
    | uint8 image of `(2 * size + 1, 2 * size + 1, 3)`, 19 by 19: a pixel for each tile | 0 to 255 |

    | action | meaning |
    |---|---|
    | 0 | move one cell up; into a wall, stay |
    | 1 | move down |
    | 2 | move left |
    | 3 | move right |

    - **Reward**: 1 at the goal; every other step costs `step_cost`, 0.01.
    - **Start**: the upper left cell of a random maze, in which one path joins any two cells.
    - **Terminates** at the goal, the lower right cell.
    - **Truncates** after `max_steps`, 200.
    - **Gymnasium** has none like it.
    """

    @property
    def observation_space(self) -> Box:
        side = 2 * self.config.size + 1
        return Box(low=0, high=255, shape=(side, side, 3), dtype=jnp.uint8)

    @property
    def action_space(self) -> Discrete:
        return Discrete(4)

    def begin(self, key: jax.Array, **episode: jax.Array) -> MazeState:
        walls = carve(key, self.config.size)
        return MazeState(walls=walls, row=jnp.int32(1), column=jnp.int32(1), **episode)

    def observe(self, state: MazeState) -> jax.Array:
        tiles = np.arange(2 * self.config.size + 1, dtype=np.int32)
        rows, columns = tiles[:, None], tiles[None, :]
        goal = (rows == tiles[-2]) & (columns == tiles[-2])
        agent = (rows == state.row) & (columns == state.column)
        return tile_image(PAPER, (state.walls, INK), (goal, TEAL), (agent, CORAL))

    def advance(self, state: MazeState, action: Any) -> tuple[MazeState, jax.Array, jax.Array]:
        ahead = jnp.where(action % 2 == 0, jnp.int32(-1), jnp.int32(1))
        down = jnp.where(action < 2, ahead, jnp.int32(0))
        right = ahead - down
        stride = jnp.where(state.walls[state.row + down, state.column + right], 0, jnp.int32(2))
        row, column = state.row + stride * down, state.column + stride * right
        goal = 2 * self.config.size - 1
        terminated = (row == goal) & (column == goal)
        reward = jnp.where(terminated, 1.0, -self.config.step_cost).astype(jnp.float32)
        return state.replace(row=row, column=column), reward, terminated

    def render(self, state: MazeState) -> np.ndarray:
        size = self.config.size
        side = 2 * size + 1
        canvas = Canvas(16 * side, 16 * side, scale=16, centre=(size, -size), paper=INK)
        for row, column in np.argwhere(~np.asarray(state.walls)).tolist():
            if row % 2 == 0:
                canvas.line((column, -row - 1), (column, -row + 1), 1.375, PAPER)
            if column % 2 == 0:
                canvas.line((column - 1, -row), (column + 1, -row), 1.375, PAPER)
        canvas.box((side - 2, 2 - side), (0.9, 0.9), TEAL, corner=0.2)
        canvas.disc((float(state.column), -float(state.row)), 0.45, CORAL)
        return canvas.image()
