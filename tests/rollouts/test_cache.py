"""Rollouts of a cached environment are cached; `_jax/test_processes.py` counts them."""

import threading
from pathlib import Path
from typing import Any

import jax
import pytest
from helpers import small_vec

import envrax
from envrax.testing import CountingEnv


@pytest.mark.slow
def test_the_cache_is_that_of_the_last_compilation(tmp_path: Path) -> None:
    """Looked up where a program is compiled, and None is no cache."""
    env = small_vec(CountingEnv(), 2)
    at = envrax.start(env, jax.random.key(0))
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
    """Its reset waits once for a thread that compiles."""

    def reset(self, rng: Any) -> Any:
        if not self.waits:
            return super().reset(rng)
        self.waits = False
        other = threading.Thread(target=lambda: envrax.VecEnv(CountingEnv(), 2).compile(None))
        other.start()
        other.join(60)
        assert not other.is_alive()
        return super().reset(rng)


@pytest.mark.slow
def test_the_code_of_the_user_is_not_traced_while_the_cache_is_locked(tmp_path: Path) -> None:
    waits = Waits()
    env = envrax.VecEnv(waits, 2)
    waits.waits = True
    env.compile(tmp_path)
    at = envrax.start(env, jax.random.PRNGKey(0))
    waits.waits = True
    envrax.rollout(env, None, at, 2)
    assert not waits.waits
