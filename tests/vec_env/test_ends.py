"""A batch returns True where an episode ended, whichever of `done` and `state.done` says so."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_trees_equal, small_vec

import envrax
from envrax import EnvConfig, VecEnv, Wrapper
from envrax.autoreset import Select
from envrax.interop import to_gymnasium_vec
from envrax.testing import CountingEnv, ImageEnv
from envrax.wrappers import vector

KEY = jax.random.key(0)


class OnlyReturned(CountingEnv):
    """`state.done` is always False."""

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, done, info = super().step(state, action)
        return obs, state.replace(done=jnp.bool_(False)), reward, done, info


class EndsAtTwo(Wrapper[Any, Any, Any, Any]):
    """Ends an episode after two steps, and says so in the state only."""

    def step(self, state: Any, action: Any) -> Any:
        obs, state, *rest = super().step(state, action)
        return obs, state.replace(done=state.done | (state.step >= 2)), *rest


LIMIT = EnvConfig(max_steps=5)
BATCHES = {
    "only returned": (VecEnv(OnlyReturned(LIMIT), 2, autoreset=Select()), 5),
    "only in the state": (VecEnv(EndsAtTwo(CountingEnv(LIMIT)), 2, autoreset=Select()), 2),
}


@pytest.fixture(params=BATCHES)
def ends(request: Any) -> tuple[Any, int]:
    return BATCHES[request.param]


def dones_of(step: Any, reset: Any, n_steps: int) -> np.ndarray:
    _, state = reset
    found: list[np.ndarray] = []
    for _ in range(n_steps):
        _, state, _, dones, _ = step(state, jnp.ones(2, jnp.int32))
        found.append(np.asarray(dones))
    return np.array(found)


def test_the_dones_of_a_batch(ends: Any) -> None:
    batch, length = ends
    expected = [[(i + 1) % length == 0] * 2 for i in range(12)]
    assert dones_of(batch.step, batch.reset(KEY), 12).tolist() == expected


def test_rollouts_evaluations_and_statistics_see_it(ends: Any) -> None:
    """Each of an environment and of its batch for one of both ends."""
    batch, length = ends
    played: Any = vector.RecordEpisodeStatistics(batch)
    evaluated = batch.env
    if length == 2:
        played, evaluated = envrax.RecordEpisodeStatistics(batch.env), batch
    steps = jax.device_get(envrax.rollout(played, None, envrax.start(played, KEY), 10)[1])
    ended = steps.done.reshape(10, -1)
    expected = np.arange(1, 11)[:, None] % length == 0
    np.testing.assert_array_equal(ended, np.broadcast_to(expected, ended.shape))
    assert_trees_equal(steps.terminated | steps.truncated, steps.done)
    assert_trees_equal(steps.info["episode"]["l"], np.where(steps.done, np.int32(length), 0))
    found = envrax.evaluate(evaluated, None, KEY, 3, max_steps=9)
    assert found.lengths.tolist() == [length] * 3 and found.complete.all()


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
def test_trainers_see_the_end(mode: str) -> None:
    batch, length = BATCHES["only in the state" if mode == "SameStep" else "only returned"]
    out = to_gymnasium_vec(batch, autoreset_mode=mode)
    out.reset(seed=0)
    for i in range(length):
        _, _, terminated, truncated, _ = out.step(np.ones(2, np.int64))
        assert (terminated | truncated).tolist() == [i + 1 == length] * 2


def test_a_done_of_another_type_stays_as_its_wrapper_made_it() -> None:
    env = small_vec(envrax.ExpandDims(envrax.EpisodeDiscount(EndsAtTwo(CountingEnv(LIMIT)))), 2)
    dones = dones_of(env.step, env.reset(KEY), 5)
    assert dones.dtype == np.float32 and dones.shape == (5, 2, 1)
    assert dones[:, 0, 0].tolist() == [1, 0, 1, 0, 1]


@pytest.mark.slow
def test_the_memory_of_an_evaluation_is_that_of_the_slots() -> None:
    batch = VecEnv(ImageEnv(), 4)

    def bytes_of(n_episodes: int) -> int:
        run: Any = jax.jit(lambda rng: envrax.evaluate(batch, None, rng, n_episodes))
        return run.lower(KEY).compile().memory_analysis().temp_size_in_bytes

    one_image = int(np.prod(batch.single_observation_space.shape))
    assert (bytes_of(2_000) - bytes_of(1_000)) / 1_000 < one_image / 2
