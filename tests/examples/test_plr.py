"""The example of replayed levels: how levels are counted, drawn and replaced."""

from collections import deque
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import plr
import pytest
from plr import N_LEVELS, N_NEW, REPLAYED, STALE, Levels

import envrax
from envrax.wrappers.start_states import StartState

pytestmark = pytest.mark.usefixtures("standard_promotion")


@pytest.fixture(scope="module")
def trainer() -> plr.PLR:
    return plr.PLR(1, replays=True, size=2, max_steps=6)


def buffer(start: Any = None, **places: tuple[float, float, int]) -> Levels:
    """Levels of which some were played: wins, plays and age by their place."""
    columns = [np.zeros(N_LEVELS) for _ in range(3)]
    for place, values in places.items():
        for column, value in zip(columns, values, strict=True):
            column[int(place[1:])] = value
    wins, plays, age = columns
    start = start or (None, None, jnp.arange(N_LEVELS, dtype=jnp.int32))
    return Levels(start, jnp.float32(wins), jnp.float32(plays), jnp.int32(age))


def played(number: list[int], done: list[bool], won: list[bool]) -> Any:
    values = [jnp.asarray(x)[:, None] for x in (number, done, won)]
    none, info = [None] * 3, {"start": values[0]}
    return envrax.Transition(*none, values[1], values[2], *none[:2], info, None)


def test_only_ends_of_levels_that_are_still_there_are_counted() -> None:
    levels = buffer(_3=(1.0, 2.0, 0))
    levels = levels._replace(start=(None, None, levels.number.at[7].add(N_LEVELS)))
    level = [3, 3, 3, 7, 7 + N_LEVELS, 5, -1]
    ended = [True, True, False, True, True, True, True]
    won = [True, False, True, True, True, False, True]
    counted = jax.jit(Levels.counted)(levels, played(level, ended, won))
    assert [float(counted.wins[i]) for i in (3, 7, 5)] == [1.5, 1.0, 0.0]
    assert [float(counted.plays[i]) for i in (3, 7, 5)] == [3.0, 1.0, 1.0]
    assert float(counted.plays.sum()) == 5.0  # the old level 7, and the one without a number: none
    assert [int(counted.age[i]) for i in (3, 7, 5, 6)] == [0, 0, 0, 1]


def test_what_is_solved_half_of_the_time_is_drawn_most() -> None:
    levels = buffer(_2=(0.0, 9.0, 0), _4=(5.0, 9.0, 1), _6=(9.0, 9.0, 1))
    running = jax.jit(Levels.chances)(levels)
    chances = np.diff(np.asarray(running), prepend=0.0)
    np.testing.assert_allclose(chances.sum(), 1.0, rtol=1e-5)
    replayed = chances[[2, 4, 6]]
    np.testing.assert_allclose(replayed.sum(), REPLAYED, rtol=1e-5)
    assert replayed[1] > 0.8 * REPLAYED
    np.testing.assert_allclose(replayed[2] - replayed[0], STALE * REPLAYED / 2, rtol=1e-3)

    places = jnp.arange(N_LEVELS, dtype=jnp.int32)
    draw = jax.jit(jax.vmap(partial(plr.draw, places, running)))
    drawn = draw(jax.random.split(jax.random.key(0), 4000))
    counts = np.bincount(np.asarray(drawn), minlength=N_LEVELS) / 4000
    np.testing.assert_allclose(counts[[2, 4, 6]], replayed, atol=0.03)
    assert set(
        np.asarray(plr.draw(places, jnp.cumsum(places == 9), jax.random.key(1))).ravel()
    ) == {9}


@pytest.mark.integration
def test_new_levels_replace_those_with_the_lowest_scores(trainer: plr.PLR) -> None:
    number = jnp.arange(N_LEVELS, dtype=jnp.int32)
    start = jax.jit(trainer.new)(jax.random.key(0), number)
    rate = np.linspace(0.01, 0.5, N_LEVELS)
    places = {f"_{i}": (10 * rate[i], 10.0, 3) for i in range(N_LEVELS - 10)}
    levels = buffer(start, **places)  # ten are not played yet
    new = jax.jit(trainer.renewed)(levels, jax.random.key(1))
    changed = np.flatnonzero(np.asarray(new.number != levels.number))
    np.testing.assert_array_equal(changed, np.arange(N_NEW - 10))
    np.testing.assert_array_equal(new.number[changed], changed + N_LEVELS)
    assert int(jnp.sum(new.plays == 0)) == N_NEW
    walls, before = (np.asarray(x.start[1].walls) for x in (new, levels))
    same = (walls == before).all(axis=(1, 2))
    assert same[N_NEW - 10 :].all() and not same[: N_NEW - 10].all()


@pytest.mark.slow
def test_the_number_in_the_info_is_that_of_the_level_played(trainer: plr.PLR) -> None:
    (at, _, levels), _ = jax.jit(trainer.update)(jax.jit(trainer.init)(0), None)
    env = envrax.VecEnv(
        trainer.started(partial(plr.draw, levels.start, levels.chances())), plr.N_ENVS
    )
    at, _ = envrax.rollout(env, None, at, 30)
    layer = at.env_state
    while not isinstance(layer, StartState):
        layer = layer.env_state
    place = np.asarray(layer.start) % N_LEVELS
    expected = np.asarray(levels.start[1].walls)[place]
    known = np.asarray(levels.number)[place] == np.asarray(layer.start)
    assert known.all()
    np.testing.assert_array_equal(layer.env_state.walls, expected)


def test_paths_are_as_long_as_a_search_finds(trainer: plr.PLR) -> None:
    _, states, _ = jax.jit(trainer.new)(jax.random.key(2), jnp.arange(6, dtype=jnp.int32))
    walls = states.walls
    lengths = jax.jit(jax.vmap(plr.path_length))(walls)
    assert lengths.tolist() == [searched(np.asarray(one)) for one in walls]


def searched(walls: np.ndarray) -> int:
    """Breadth first."""
    last = walls.shape[0] - 2
    steps, waiting = {(1, 1): 0}, deque([(1, 1)])
    while waiting:
        y, x = waiting.popleft()
        for tile in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):
            if not walls[tile] and tile not in steps:
                steps[tile] = steps[y, x] + 1
                waiting.append(tile)
    return steps[last, last] // 2


@pytest.mark.slow
def test_a_short_run_learns_small_mazes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plr, "N_TESTS", 8)
    monkeypatch.setattr(plr, "N_CANDIDATES", 32)
    plr.main(["--seeds=1", "--total-steps=131072", "--size=3"])
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 4
    assert all(float(line.split(": ")[1].split("%")[0]) >= 85 for line in printed)


@pytest.mark.slow
@pytest.mark.parametrize(("max_steps", "solved"), [(1, False), (2, True)])
def test_a_maze_solved_in_the_last_step_is_solved(max_steps: int, solved: bool) -> None:
    class Scripted(plr.PLR):
        """Its parameters are the actions that it takes."""

        def act(self, params: Any, obs: Any, rng: Any) -> Any:
            return params[0], jnp.roll(params, -1), None

    tester = Scripted(1, replays=False, size=2, max_steps=max_steps)
    starts = tester.new(jax.random.key(0), jnp.full(1, -1))
    # From corner to corner in two moves, whose order depends on the walls.
    orders = jnp.int32([[1, 3, 1], [3, 1, 3]])
    found = jax.jit(jax.vmap(lambda order: tester.solved(order, starts)))(orders)
    assert found.sum() == int(solved)
