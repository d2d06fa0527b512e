"""Eight threads that register, make and step at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import pytest
from fakes import CoinEnv, VectorConfig, VectorEnv
from helpers import assert_trees_equal

import envrax

THREADS = 8
pytestmark = pytest.mark.usefixtures("clean_registry")


def episode(env: Any, seed: int) -> Any:
    obs, state = env.reset(jax.random.key(seed))
    seen = [obs]
    for step in range(6):
        obs, state, *rest = env.step(state, env.action_space.sample(jax.random.key(step)))
        seen.append((obs, state, rest))
    return seen


@pytest.mark.slow
def test_registering_making_and_stepping_at_once() -> None:
    """Each thread its own name, all of them one that they share; the results are those of one."""
    envrax.register("Threads-v0", VectorEnv, VectorConfig(max_steps=4))
    start = threading.Barrier(THREADS)

    def work(i: int) -> Any:
        start.wait()
        name = f"Threads{i}-v0"
        envrax.register(name, CoinEnv, CoinEnv().config)
        own, shared = envrax.make_vec(name, 3), envrax.make_vec("Threads-v0", 3)
        single = envrax.make("Threads-v0", wrappers=[envrax.RecordEpisodeStatistics])
        return [episode(env, 0) for env in (own, shared, single)]

    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(work, range(THREADS)))
    expected = [
        episode(envrax.VecEnv(CoinEnv(), 3), 0),
        episode(envrax.VecEnv(VectorEnv(VectorConfig(max_steps=4)), 3), 0),
    ]
    for result in results:
        assert_trees_equal(result[:2], expected)
        assert_trees_equal(result[2], results[0][2])
    names = {f"Threads{i}-v0" for i in range(THREADS)} | {"Threads-v0"}
    assert names <= set(envrax.registered_names())


def test_only_one_thread_wins_a_name() -> None:
    start, won = threading.Barrier(THREADS), []

    def work(i: int) -> None:
        start.wait()
        try:
            envrax.register("Threads-v1", VectorEnv, VectorConfig(max_steps=i + 1))
        except ValueError as error:
            assert "already registered" in str(error)
        else:
            won.append(i)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    assert len(won) == 1
    assert envrax.get_spec("Threads-v1").default_config.max_steps == won[0] + 1


def test_one_environment_stepped_by_all(compile_counter: Any) -> None:
    vec_env = envrax.VecEnv(VectorEnv(), 3)
    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(lambda seed: episode(vec_env, seed), range(THREADS)))
    with compile_counter() as compiled:
        alone = [episode(vec_env, seed) for seed in range(THREADS)]
    assert compiled.count == 0
    for got, expected in zip(results, alone, strict=True):
        assert_trees_equal(got, expected)
