"""ConnectFour: a board game with legal moves, against a random opponent."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax.classic._draw import AMBER, BLUE, CORAL, PAPER, Canvas
from envrax.env import EnvConfig, EnvState
from envrax.episodic_env import EpisodicEnv
from envrax.spaces import Box, Discrete


@chex.dataclass
class ConnectFourState(EnvState):
    """`board`, int8 of shape (rows, columns), top first: 1 own stone, -1 the opponent's, 0 free."""

    board: jax.Array


@chex.dataclass
class ConnectFourConfig(EnvConfig):
    """Size of the board. A game on 6 x 7 places has at most 21 moves of each player."""

    max_steps: int = 100
    rows: int = 6
    columns: int = 7


def connected(stones: jax.Array) -> jax.Array:
    """
    Whether four stones lie in a row, in a column or on a diagonal.

    Parameters
    ----------
    stones : jax.Array
        bool map of shape (rows, columns).

    Returns
    -------
    jax.Array
        bool scalar.
    """

    def in_line(stones: jax.Array, down: int, right: int) -> jax.Array:
        def along(stones: jax.Array, n: int) -> jax.Array:
            """The places with a stone that have another one n places ahead."""
            rows, columns = stones.shape
            ahead = stones[n * down :, n * right :]
            return stones[: max(rows - n * down, 0), : max(columns - n * right, 0)] & ahead

        return jnp.any(along(along(stones, 1), 2))  # pairs of pairs

    falling = in_line(stones, 0, 1) | in_line(stones, 1, 0) | in_line(stones, 1, 1)
    return falling | in_line(stones[::-1], 1, 1)


class ConnectFour(EpisodicEnv[Box, Discrete, ConnectFourState, ConnectFourConfig]):
    """
    Get four stones in a line, against an opponent who drops them at random.

    | observation | bounds |
    |---|---|
    | plane of `(rows, columns)`, 6 by 7: own stones | 0 or 1 |
    | plane of the opponent's | 0 or 1 |

    | action | meaning |
    |---|---|
    | 0 to `columns - 1` | drop a stone into this column; `action_mask`: those not full |

    - **Reward**: 1 for a win, -1 for a loss, 0 for a full board and before.
    - **Start**: an empty board; in half of the games the opponent moves first.
    - **Terminates** when one has four in a row, in a column or on a diagonal, when the board is
      full, or at a stone into a full column, which loses.
    - **Truncates** after `max_steps`, 100: never by default.
    - **Gymnasium** has none like it.
    """

    @property
    def observation_space(self) -> Box:
        shape = (self.config.rows, self.config.columns, 2)
        return Box(low=0.0, high=1.0, shape=shape, dtype=jnp.float32)

    @property
    def action_space(self) -> Discrete:
        return Discrete(self.config.columns)

    def action_mask(self, state: ConnectFourState) -> jax.Array:
        return state.board[0] == 0

    def begin(self, key: jax.Array, **episode: jax.Array) -> ConnectFourState:
        shape = self.config.rows, self.config.columns
        # Half of the numbers are no column: the opponent waits.
        column = jax.random.randint(key, (), 0, 2 * self.config.columns, jnp.int32)
        board = self.drop(jnp.zeros(shape, jnp.int8), column, -1)
        return ConnectFourState(board=board, **episode)

    def observe(self, state: ConnectFourState) -> jax.Array:
        return jnp.stack([state.board == 1, state.board == -1], axis=-1).astype(jnp.float32)

    def advance(
        self, state: ConnectFourState, action: Any
    ) -> tuple[ConnectFourState, jax.Array, jax.Array]:
        rng, key = jax.random.split(state.rng)
        mine = self.drop(state.board, action, 1)
        illegal = jnp.all(mine == state.board)
        won = connected(mine == 1)
        reply = self.action_space.sample(key, mine[0] == 0)
        board = jnp.where(illegal | won, mine, self.drop(mine, reply, -1))
        lost = illegal | connected(board == -1)
        terminated = won | lost | jnp.all(board != 0)
        reward = won.astype(jnp.float32) - lost.astype(jnp.float32)
        return state.replace(board=board, rng=rng), reward, terminated

    def drop(self, board: jax.Array, column: Any, stone: int) -> jax.Array:
        """The board with one more stone; unchanged if the column is full or does not exist."""
        rows, columns = np.indices(board.shape, np.int32)
        lowest = len(board) - 1 - jnp.sum(board != 0, axis=0, keepdims=True, dtype=jnp.int32)
        lands = (rows == lowest) & (columns == column)
        return jnp.where(lands, jnp.int8(stone), board)

    def render(self, state: ConnectFourState) -> np.ndarray:
        rows, columns = self.config.rows, self.config.columns
        centre = ((columns - 1) / 2, (1 - rows) / 2)
        canvas = Canvas(40 * columns + 24, 40 * rows + 24, scale=40, centre=centre)
        canvas.box(centre, (columns + 0.4, rows + 0.4), BLUE, corner=0.3)
        colours = {0: PAPER, 1: CORAL, -1: AMBER}
        for (row, column), stone in np.ndenumerate(np.asarray(state.board)):
            canvas.disc((column, -row), 0.4, colours[int(stone)])
        return canvas.image()
