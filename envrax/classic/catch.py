"""Catch: move a paddle under a falling ball, from pixels."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax.classic._draw import CORAL, INK, SLATE, TEAL, Canvas, tile_image
from envrax.env import EnvConfig, EnvState
from envrax.episodic_env import EpisodicEnv
from envrax.spaces import Box, Discrete


@chex.dataclass
class CatchState(EnvState):
    """The ball's row and column and the paddle's column, each an int32 scalar."""

    ball_row: jax.Array
    ball_column: jax.Array
    paddle: jax.Array


@chex.dataclass
class CatchConfig(EnvConfig):
    """Size of the board in tiles, and pixels per tile."""

    rows: int = 10
    columns: int = 5
    tile: int = 2


class Catch(EpisodicEnv[Box, Discrete, CatchState, CatchConfig]):
    """
    Move a paddle under a ball that falls one row in each step.

    | observation | bounds |
    |---|---|
    | uint8 image of ball and paddle, `(rows * tile, columns * tile, 3)`: 20 by 10 | 0 to 255 |

    | action | meaning |
    |---|---|
    | 0 | move left |
    | 1 | stay |
    | 2 | move right |

    - **Reward**: 1 if the ball is caught, -1 if not, in the last step; 0 before.
    - **Start**: the ball in the top row, in a random column; the paddle in the middle.
    - **Terminates** when the ball is in the row of the paddle, after `rows - 1` steps.
    - **Truncates** after `max_steps`, 1,000: never by default.
    - **Gymnasium** has none like it.
    """

    @property
    def observation_space(self) -> Box:
        c = self.config
        return Box(low=0, high=255, shape=(c.rows * c.tile, c.columns * c.tile, 3), dtype=jnp.uint8)

    @property
    def action_space(self) -> Discrete:
        return Discrete(3)

    def begin(self, key: jax.Array, **episode: jax.Array) -> CatchState:
        columns = self.config.columns
        column = jax.random.randint(key, (), 0, columns, jnp.int32)
        middle = jnp.int32(columns // 2)
        return CatchState(ball_row=jnp.int32(0), ball_column=column, paddle=middle, **episode)

    def observe(self, state: CatchState) -> jax.Array:
        c = self.config
        rows = np.arange(c.rows * c.tile, dtype=np.int32)[:, None] // c.tile
        columns = np.arange(c.columns * c.tile, dtype=np.int32)[None, :] // c.tile
        paddle = (rows == c.rows - 1) & (columns == state.paddle)
        ball = (rows == state.ball_row) & (columns == state.ball_column)
        return tile_image(INK, (paddle, TEAL), (ball, CORAL))

    def advance(self, state: CatchState, action: Any) -> tuple[CatchState, jax.Array, jax.Array]:
        c = self.config
        move = jnp.sign(jnp.asarray(action, jnp.int32) - 1)
        paddle = jnp.clip(state.paddle + move, 0, c.columns - 1)
        ball_row = state.ball_row + 1
        terminated = ball_row >= c.rows - 1
        prize = jnp.where(paddle == state.ball_column, jnp.float32(1.0), jnp.float32(-1.0))
        reward = jnp.where(terminated, prize, jnp.float32(0.0))
        return state.replace(ball_row=ball_row, paddle=paddle), reward, terminated

    def render(self, state: CatchState) -> np.ndarray:
        rows, columns = self.config.rows, self.config.columns
        canvas = Canvas(
            40 * columns + 24,
            40 * rows + 16,
            scale=40,
            centre=((columns - 1) / 2, (rows - 1) / 2),
            paper=INK,
        )
        for row in range(rows):
            for column in range(columns):
                canvas.disc((column, row), 0.04, SLATE)
        canvas.box((float(state.paddle), -0.1), (0.9, 0.3), TEAL, corner=0.12)
        canvas.disc((float(state.ball_column), float(rows - 1 - state.ball_row)), 0.32, CORAL)
        return canvas.image()
