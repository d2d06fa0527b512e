"""Rollouts and evaluations of a cached environment: a second process compiles nothing."""

import threading
from pathlib import Path
from typing import Any

import jax

import envrax
from envrax.testing import CountingEnv

CODE = """
from conftest import count_compilations
import jax, jax.numpy as jnp
import envrax
from envrax.wrappers.vector import NormalizeReward

key = jax.random.key(0)
weights = jnp.ones((4, 2))

def policy(state, obs, rng):
    return jax.random.categorical(rng, obs @ weights), state, None

batch = envrax.make_vec("classic/CartPole-v0", 4, cache_dir={cache!r})
single = envrax.make("classic/CartPole-v0", cache_dir={cache!r})
with count_compilations() as counted:
    for env in (batch, NormalizeReward(batch), single):
        at, _ = envrax.rollout(env, policy, envrax.start(env, key), 3)
        envrax.evaluate(env, policy, key, 3)
    envrax.evaluate_grid(single, policy, key, {{"max_steps": [3, 4]}}, 2)
print(counted.misses, counted.count - counted.hits)
"""


def test_a_second_process_compiles_nothing(run_python: Any, tmp_path: Path) -> None:
    code = CODE.format(cache=str(tmp_path / "cache"))
    first = run_python(code, XLA_FLAGS="")
    assert int(first.split()[0]) >= 7, first
    assert run_python(code, XLA_FLAGS="").split() == ["0", "0"]


def test_nothing_is_written_for_an_environment_that_was_not_cached(
    run_python: Any, tmp_path: Path
) -> None:
    code = CODE.format(cache=None)
    assert run_python(code, ENVRAX_CACHE_DIR=str(tmp_path / "default")).split()[0] == "0"
    assert not [*tmp_path.glob("**/*cache*")]


def test_the_cache_is_that_of_the_last_compilation(tmp_path: Path) -> None:
    """Looked up where a program is compiled, and None is no cache."""
    env = envrax.VecEnv(CountingEnv(), 2)
    at = envrax.start(env, jax.random.key(0))
    envrax.rollout(env, None, at, 1)
    for n_steps, folder in ((2, "a"), (3, "b")):
        env.compile(tmp_path / folder)
        before = len([*(tmp_path / folder).iterdir()])
        envrax.rollout(env, None, at, n_steps)
        assert len([*(tmp_path / folder).iterdir()]) > before
    env.compile(None)
    before = len([*tmp_path.glob("*/*")])
    envrax.rollout(env, None, at, 4)
    assert len([*tmp_path.glob("*/*")]) == before


class Waits(CountingEnv):
    """Its reset waits for a thread that compiles."""

    def reset(self, rng: Any) -> Any:
        other = threading.Thread(target=lambda: envrax.VecEnv(CountingEnv(), 2).compile(None))
        other.start()
        other.join(60)
        assert not other.is_alive()
        return super().reset(rng)


def test_the_code_of_the_user_is_not_traced_while_the_cache_is_locked(tmp_path: Path) -> None:
    env = envrax.VecEnv(Waits(), 2)
    env.compile(tmp_path)
    at = envrax.start(env, jax.random.PRNGKey(0))
    envrax.rollout(env, None, at, 2)
