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
    """Each thread a name of its own, and one that only the first of them gets."""
    start, won = threading.Barrier(THREADS), []

    def work(i: int) -> Any:
        start.wait()
        envrax.register(f"Threads{i}-v0", CoinEnv, CoinEnv().config)
        try:
            envrax.register("Threads-v0", VectorEnv, VectorConfig(max_steps=i + 4))
        except ValueError as error:
            assert "already registered" in str(error)
        else:
            won.append(i)
        start.wait()
        envs = envrax.make_vec(f"Threads{i}-v0", 3), envrax.make_vec("Threads-v0", 3)
        return [episode(env, 0) for env in envs]

    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(work, range(THREADS)))
    assert len(won) == 1
    config = VectorConfig(max_steps=won[0] + 4)
    assert envrax.get_spec("Threads-v0").default_config == config
    expected = [episode(envrax.VecEnv(env, 3), 0) for env in (CoinEnv(), VectorEnv(config))]
    for result in results:
        assert_trees_equal(result, expected)


def test_one_environment_stepped_by_all(compile_counter: Any) -> None:
    vec_env = envrax.VecEnv(VectorEnv(), 3)
    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(lambda seed: episode(vec_env, seed), range(THREADS)))
    with compile_counter() as compiled:
        alone = [episode(vec_env, seed) for seed in range(THREADS)]
    assert compiled.count == 0
    for got, expected in zip(results, alone, strict=True):
        assert_trees_equal(got, expected)
