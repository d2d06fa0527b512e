"""Catch, Ball and Maze of the suite `classic`: what each one promises."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from classic_envs import Env, compiled
from helpers import slow_but

import envrax
from envrax import VecEnv, classic

# Catch.


@pytest.mark.parametrize(("towards", "prize"), [(1, 1.0), (-1, -1.0)])
def test_catch_pays_at_the_bottom_and_only_there(towards: int, prize: float) -> None:
    env, reset, step = compiled(classic.Catch)
    columns = set()
    for seed in range(40):
        _, state = reset(jax.random.key(seed))
        columns.add(int(state.ball_column))
        rewards: list[float] = []
        info, done = {}, False
        while not done:
            gap = int(state.ball_column) - int(state.paddle)
            # Away from the ball: to the side with more room.
            aim = np.sign(gap) if towards == 1 else (-1 if int(state.ball_column) > 2 else 1)
            _, state, reward, done, info = step(state, jnp.int32(1 + aim))
            rewards.append(float(reward))
        assert info["terminated"] and not info["truncated"]
        assert rewards == [0.0] * (env.config.rows - 2) + [prize]
    assert columns == set(range(env.config.columns))


def test_catch_shows_ball_and_paddle_where_they_are() -> None:
    env, reset, step = compiled(classic.Catch)
    tile = env.config.tile
    obs, state = reset(jax.random.key(1))
    for action in (0, 0, 2):
        obs, state, *_ = step(state, jnp.int32(action))
    board = np.asarray(obs)[::tile, ::tile]
    np.testing.assert_array_equal(np.kron(board, np.ones((tile, tile, 1), np.uint8)), obs)
    colours, counts = np.unique(board.reshape(-1, 3), axis=0, return_counts=True)
    assert sorted(counts) == [1, 1, env.config.rows * env.config.columns - 2]
    marked = np.argwhere(np.any(board != colours[np.argmax(counts)], axis=-1)).tolist()
    assert marked == [
        [int(state.ball_row), int(state.ball_column)],
        [env.config.rows - 1, int(state.paddle)],
    ]
    # Grey must still tell the three apart.
    grey = np.sort(colours @ np.array([0.299, 0.587, 0.114]))
    assert np.all(np.diff(grey) > 8)


# Ball.


def test_ball_goes_where_it_is_pushed_and_no_further() -> None:
    env, reset, step = compiled(classic.BallEnv)
    _, state = reset(jax.random.key(0))
    middle = state.replace(ball=jnp.float32([0.5, 0.5]))
    for action, move in enumerate([(-1, 0), (1, 0), (0, -1), (0, 1)]):
        _, moved, *_ = step(middle, jnp.int32(action))
        np.testing.assert_allclose(moved.ball, 0.5 + env.config.push * np.array(move), rtol=1e-6)
        for _ in range(30):
            obs, moved, *_ = step(moved, jnp.int32(action))
            assert env.observation_space.contains(obs)
        np.testing.assert_allclose(moved.ball, 0.5 + 0.5 * np.array(move))


def test_ball_rewards_going_to_the_target() -> None:
    _, reset, step = compiled(classic.BallEnv)

    def play(seed: int, informed: bool) -> tuple[float, bool]:
        obs, state = reset(jax.random.key(seed))
        total, done, info, rng = 0.0, False, {}, np.random.default_rng(seed)
        while not done:
            gap = np.asarray(obs)[2:] - np.asarray(obs)[:2]
            axis = int(np.argmax(np.abs(gap)))
            best = 2 * axis + int(gap[axis] > 0)
            action = best if informed else int(rng.integers(4))
            obs, state, reward, done, info = step(state, jnp.int32(action))
            total += float(reward)
        return total, bool(info["terminated"])

    informed = [play(seed, True) for seed in range(10)]
    aimless = [play(seed, False) for seed in range(10)]
    assert all(arrived for _, arrived in informed)
    assert np.mean([t for t, _ in informed]) > 0.25 * np.mean([t for t, _ in aimless])


# Maze.


def passages(walls: np.ndarray) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """The neighbours that each cell can be left for."""
    size = walls.shape[0] // 2
    graph: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for r in range(size):
        for c in range(size):
            sides = [(r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)]
            graph[r, c] = [(a, b) for a, b in sides if not walls[r + a + 1, c + b + 1]]
    return graph


def distances(walls: np.ndarray, goal: tuple[int, int]) -> dict[tuple[int, int], int]:
    graph, found, queue = passages(walls), {goal: 0}, deque([goal])
    while queue:
        here = queue.popleft()
        for there in graph[here]:
            if there not in found:
                found[there] = found[here] + 1
                queue.append(there)
    return found


@pytest.mark.parametrize("size", slow_but(5, values=[1, 2, 5]))
def test_mazes_are_perfect_and_all_different(size: int) -> None:
    env = classic.Maze(classic.MazeConfig(size=size))
    keys = jax.random.split(jax.random.key(0), 16)
    _, states = jax.jit(jax.vmap(env.reset))(keys)
    mazes = np.asarray(states.walls)
    for walls in mazes:
        assert walls.shape == (2 * size + 1, 2 * size + 1)
        assert walls[0].all() and walls[-1].all() and walls[:, 0].all() and walls[:, -1].all()
        # Pillars stand, cells are free, and of the rest exactly as much as a tree needs.
        assert walls[::2, ::2].all() and not walls[1::2, 1::2].any()
        assert np.sum(~walls) == size**2 + (size**2 - 1)
        assert len(distances(walls, (0, 0))) == size**2
    # Around a ring of four cells there are two ways to dig.
    different = len({walls.tobytes() for walls in mazes})
    assert different == {1: 1, 2: 2}.get(size, 16)


def test_mazes_are_left_by_doors_only() -> None:
    env = classic.Maze(classic.MazeConfig(size=5))
    _, state = jax.jit(env.reset)(jax.random.key(3))
    walls = np.asarray(state.walls)
    cells = [(r, c, a) for r in range(5) for c in range(5) for a in range(4)]

    def move(row: jax.Array, column: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        _, after, *_ = env.step(state.replace(row=2 * row + 1, column=2 * column + 1), action)
        return after.row, after.column

    rows, columns = jax.jit(jax.vmap(move))(*np.array(cells, np.int32).T)
    for (r, c, action), row, column in zip(cells, rows.tolist(), columns.tolist(), strict=True):
        dr, dc = [(-1, 0), (1, 0), (0, -1), (0, 1)][action]
        there = (r + dr, c + dc)
        expected = there if there in passages(walls)[r, c] else (r, c)
        assert (row, column) == (2 * expected[0] + 1, 2 * expected[1] + 1)


def test_the_way_out_of_a_maze_pays() -> None:
    env, reset, step = compiled(classic.Maze)
    obs, state = reset(jax.random.key(0))
    size, walls = env.config.size, np.asarray(state.walls)
    left = distances(walls, (size - 1, size - 1))
    cell, rewards, done, info = (0, 0), [], False, {}
    while not done:
        following = min(passages(walls)[cell], key=left.__getitem__)
        action = [(-1, 0), (1, 0), (0, -1), (0, 1)].index(
            (following[0] - cell[0], following[1] - cell[1])
        )
        # The agent is the one pixel of its colour, one pixel per tile.
        row, column = 2 * cell[0] + 1, 2 * cell[1] + 1
        same = np.argwhere(np.all(np.asarray(obs) == np.asarray(obs)[row, column], axis=-1))
        assert same.tolist() == [[row, column]]
        obs, state, reward, done, info = step(state, jnp.int32(action))
        cell = following
        rewards.append(float(reward))
    assert info["terminated"] and not info["truncated"]
    assert len(rewards) == left[0, 0]
    np.testing.assert_allclose(rewards, [-env.config.step_cost] * (left[0, 0] - 1) + [1.0])


# Both.


@pytest.mark.slow
@pytest.mark.parametrize("cls", [classic.Catch, classic.Maze])
def test_image_wrappers_fit_the_image_envs(cls: type[Env]) -> None:
    env = envrax.FrameStackObservation(
        envrax.ResizeObservation(envrax.GrayscaleObservation(cls()), h=16, w=16), n_stack=4
    )
    vec_env = VecEnv(env, 2)
    obs, state = vec_env.reset(jax.random.key(0))
    assert (obs.shape, obs.dtype) == ((2, 16, 16, 4), jnp.uint8)
    later, state, *_ = vec_env.step(state, jnp.array([1, 1], jnp.int32))
    assert np.any(np.asarray(later) != np.asarray(obs))
    np.testing.assert_array_equal(
        vec_env.render_slot(state, 1), cls().render(vec_env.slot_state(state, 1).env_state)
    )
