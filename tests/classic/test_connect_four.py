"""ConnectFour of the suite `classic`: its rules against brute force, its opponent, its mask."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from classic_envs import compiled

from envrax import classic
from envrax.classic.connect_four import connected

ROWS, COLUMNS = 6, 7
GAMES = 2000


def lines(rows: int, columns: int) -> list[tuple[list[int], list[int]]]:
    """The places of every four in a line, as rows and columns."""
    found = list[tuple[list[int], list[int]]]()
    for row, column in np.ndindex(rows, columns):
        for down, right in [(0, 1), (1, 0), (1, 1), (1, -1)]:
            places = [(row + i * down, column + i * right) for i in range(4)]
            if all(0 <= r < rows and 0 <= c < columns for r, c in places):
                found.append(([r for r, _ in places], [c for _, c in places]))
    return found


def has_four(stones: np.ndarray) -> np.ndarray:
    """`connected` by brute force, for maps along leading axes."""
    all_lines = lines(*stones.shape[-2:])
    return np.any([stones[..., r, c].all(axis=-1) for r, c in all_lines], axis=0)


@cache
def games() -> Any:
    """
    Random games, each of 21 moves.

    The board and mask before each move, the move, and what the step gave back. What follows the end
    of a game is to be ignored.
    """
    env = classic.ConnectFour()

    def game(key: jax.Array) -> Any:
        def move(state: Any, key: jax.Array) -> Any:
            mask = env.action_mask(state)
            action = env.action_space.sample(key, mask)
            obs, after, reward, done, info = env.step(state, action)
            return after, (state.board, mask, action, obs, after.board, reward, done, info)

        start, moves = jax.random.split(key)
        return jax.lax.scan(move, env.reset(start)[1], jax.random.split(moves, 21))[1]

    played = jax.jit(jax.vmap(game))(jax.random.split(jax.random.key(0), GAMES))
    *rest, done, info = jax.device_get(played)
    running = np.cumsum(done, axis=1) - done == 0  # the last move of a game included
    return *rest, done, info, running


def test_there_are_69_lines_and_each_counts_alone() -> None:
    all_lines = lines(ROWS, COLUMNS)
    assert len(all_lines) == 69
    full, short = np.zeros((2, 69, ROWS, COLUMNS), bool)
    for i, (rows, columns) in enumerate(all_lines):
        full[i, rows, columns] = True
        short[i, rows, columns] = np.arange(4) != i % 4
    found = jax.jit(jax.vmap(connected))(np.concatenate([full, short]))
    assert found.tolist() == [True] * 69 + [False] * 69


@pytest.mark.parametrize(
    "shape", [(4, 5), *(pytest.param(s, marks=pytest.mark.slow) for s in ((6, 7), (9, 4), (3, 3)))]
)
def test_four_in_a_line_is_found_as_by_brute_force(shape: tuple[int, int]) -> None:
    stones = np.random.default_rng(0).random((4000, *shape)) < 0.5
    expected = has_four(stones) if min(shape) > 3 else np.zeros(4000, bool)
    np.testing.assert_array_equal(jax.jit(jax.vmap(connected))(stones), expected)


@pytest.mark.slow
def test_random_games_keep_the_rules() -> None:
    before, mask, action, obs, after, reward, done, info, running = games()
    won, lost = has_four(after == 1), has_four(after == -1)
    full = (after != 0).all(axis=(2, 3))
    assert not (won & lost)[running].any()
    np.testing.assert_array_equal(done[running], (won | lost | full)[running])
    np.testing.assert_array_equal(info["terminated"], done)
    assert not info["truncated"].any() and done.any(axis=1).all()
    expected = won.astype(np.float32) - lost
    np.testing.assert_array_equal(reward[running], expected[running], strict=True)
    np.testing.assert_array_equal(mask, (before == 0).any(axis=2))
    planes = np.stack([after == 1, after == -1], axis=-1).astype(np.float32)
    np.testing.assert_array_equal(obs, planes, strict=True)
    # The own stone, and the opponent's unless the game was over, on top of what lay there.
    heights, later = (before != 0).sum(axis=2), (after != 0).sum(axis=2)
    assert (later >= heights).all()
    changed = np.where(np.arange(ROWS)[:, None] >= ROWS - heights[:, :, None, :], after - before, 0)
    assert not changed.any()
    falls = np.diff((after != 0).astype(int), axis=2)
    assert (falls >= 0).all()  # nothing floats
    own = (after == 1).sum(axis=(2, 3)) - (before == 1).sum(axis=(2, 3))
    theirs = (after == -1).sum(axis=(2, 3)) - (before == -1).sum(axis=(2, 3))
    assert (own[running] == 1).all()
    filled = (before == 0).sum(axis=(2, 3)) == 1
    np.testing.assert_array_equal(theirs[running], ~(won | filled)[running])
    grown = np.take_along_axis(later - heights, action[..., None], axis=2)
    assert (grown[running] >= 1).all()
    # Every end comes up, also a full board.
    assert {-1.0, 0.0, 1.0} == set(reward[done & running].tolist())


def test_the_opponent_begins_half_of_the_games_anywhere() -> None:
    first = games()[0][:, 0]
    assert not (first == 1).any()
    stones = (first == -1).sum(axis=1)  # in each column
    assert set(stones.sum(axis=1)) == {0, 1} and not first[:, :-1].any()
    begins = stones.sum(axis=0)
    assert abs(begins.sum() / GAMES - 0.5) < 4 * 0.5 / np.sqrt(GAMES)
    assert begins.min() > 0.7 * begins.mean()  # 143 in each column, give or take 12


def test_the_opponent_draws_uniformly_among_the_legal_columns() -> None:
    env, reset, step = compiled(classic.ConnectFour)
    _, state = reset(jax.random.key(0))
    board = np.zeros((ROWS, COLUMNS), np.int8)
    board[:, [0, 3]] = [[1, -1], [-1, 1]] * 3  # two full columns
    board[1:, 6] = [1, 1, -1, 1, -1]  # one place left, which the own stone takes

    def reply(key: jax.Array) -> jax.Array:
        return env.step(state.replace(board=board, rng=key), 6)[1].board

    boards = jax.jit(jax.vmap(reply))(jax.random.split(jax.random.key(1), 4000))
    counts = (np.asarray(boards) == -1).sum(axis=(0, 1)) - 4000 * (board == -1).sum(axis=0)
    assert counts[[0, 3, 6]].tolist() == [0, 0, 0]
    assert counts.sum() == 4000
    expected = 4000 / 4
    assert np.sum((counts[[1, 2, 4, 5]] - expected) ** 2 / expected) < 16.3  # 99.9 %, 3 degrees


def test_random_players_are_equally_strong_over_both_seats() -> None:
    before, *_, reward, done, _, running = games()
    result = np.where(done & running, reward, 0).sum(axis=1)
    second = before[:, 0].any(axis=(1, 2))
    assert abs(result.mean()) < 4 / np.sqrt(GAMES)
    # Who begins has an advantage, so that each seat alone is not even.
    assert result[~second].mean() > 0.05 and result[second].mean() < -0.05


@pytest.mark.parametrize("action", [2, -1, COLUMNS])
def test_an_illegal_move_loses_and_lays_no_stone(action: int) -> None:
    _, reset, step = compiled(classic.ConnectFour)
    _, state = reset(jax.random.key(0))
    board = np.zeros((ROWS, COLUMNS), np.int8)
    board[:, 2] = [1, -1] * 3
    _, after, reward, done, info = step(state.replace(board=jnp.asarray(board)), jnp.int32(action))
    np.testing.assert_array_equal(after.board, board)
    assert (float(reward), bool(done), bool(info["terminated"])) == (-1.0, True, True)


def test_the_picture_has_a_stone_where_the_board_has_one() -> None:
    env = classic.ConnectFour(classic.ConnectFourConfig(rows=4, columns=5))
    _, state = jax.jit(env.reset)(jax.random.key(0))
    board = np.zeros((4, 5), np.int8)
    board[-1, :2] = 1, -1
    board[-2, 0] = 1
    frame = env.render(state.replace(board=jnp.asarray(board)))
    middles = frame[12 + 20 :: 40, 12 + 20 :: 40][:4, :5]
    _, kind = np.unique(middles.reshape(-1, 3), axis=0, return_inverse=True)
    _, expected = np.unique(board, return_inverse=True)
    pairs = set(zip(kind.ravel().tolist(), expected.ravel().tolist(), strict=True))
    assert len(pairs) == 3  # three colours, each for one thing
