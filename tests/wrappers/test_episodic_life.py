"""`EpisodicLife`: a lost life ends the episode, and the game goes on."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_trees_equal

from envrax import EpisodicLife, RecordEpisodeStatistics, TimeLimit, VecEnv
from envrax.autoreset import Select
from envrax.testing import CountingEnv, check_env
from envrax.testing.fakes import FakeConfig

KEY = jax.random.key(0)
LIVES = (3, 0, 3, 2, 4, 3, 1)  # after each step of a game; a number between two games is drawn


class Game(CountingEnv):
    """A game of seven steps. The observation is a number drawn at its start, and its step."""

    def __init__(self) -> None:
        super().__init__(FakeConfig(max_steps=len(LIVES)))

    def step(self, state: Any, action: Any) -> Any:
        *rest, info = super().step(state, action)
        return *rest, {**info, "lives": jnp.asarray(LIVES)[state.step]}


def played(env: Any, n_steps: int = 16) -> Any:
    """What the steps of two slots returned, the step after auto-reset among them."""
    batch = VecEnv(env, 2, autoreset=Select())

    def body(state: Any, action: Any) -> Any:
        obs, state, reward, done, info = batch.step(state, action)
        return state, (obs, reward, done, info, state.step)

    actions = jax.random.randint(KEY, (n_steps, 2), 0, 3, jnp.int32)
    run = jax.jit(lambda: jax.lax.scan(body, batch.reset(KEY)[1], actions)[1])
    return jax.tree.map(np.asarray, run())


def test_the_game_is_the_same_and_only_the_ends_are_others() -> None:
    obs, reward, done, info, step = played(RecordEpisodeStatistics(EpisodicLife(Game())))
    game_obs, game_reward, game_done, game_info, _ = played(Game())
    assert_trees_equal((obs, reward), (game_obs, game_reward))
    assert_trees_equal(info["truncated"], game_info["truncated"])
    # A life is lost in steps 4, 6 and 7; the last one with the game, which ends at its limit.
    lost = np.isin(np.arange(16) % 7, (3, 5, 6))
    assert (info["terminated"] == lost[:, None]).all()
    assert (done == (game_done | lost[:, None])).all()
    assert step[:, 0].tolist() == [1, 2, 3, 0, 1, 0, 0] * 2 + [1, 2]
    assert obs[0, 0, 0] != obs[7, 0, 0]  # another game
    lengths = info["episode"]["l"][:, 0]
    assert lengths[lengths > 0].tolist() == [4, 2, 1] * 2


@pytest.mark.slow
def test_any_other_end_is_followed_by_a_new_game() -> None:
    obs, _, done, info, _ = played(TimeLimit(EpisodicLife(Game()), max_steps=2), 6)
    assert done[:, 0].tolist() == [False, True] * 3
    assert info["truncated"].sum() == done.sum()
    assert obs[:, 0, 1].tolist() == [1, 0] * 3
    env = EpisodicLife(Game())

    @jax.jit
    def both(rng: jax.Array) -> Any:
        _, running, *_ = env.step(env.reset(rng)[1], 1)
        return env.reset_after(running), env.reset(jax.random.split(running.rng)[0])

    assert_trees_equal(*both(KEY))


def test_statistics_inside_count_games() -> None:
    lengths = played(EpisodicLife(RecordEpisodeStatistics(Game())))[3]["episode"]["l"][:, 0]
    assert lengths[lengths > 0].tolist() == [7, 7]


@pytest.mark.slow
def test_the_kit_finds_nothing() -> None:
    env = TimeLimit(EpisodicLife(Game()), max_steps=2)
    check_env(RecordEpisodeStatistics(env), num_steps=20)
