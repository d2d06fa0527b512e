"""The compile cache between processes: the second compiles nothing that the first one compiled."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

COUNTING = """
import json, os
import jax
from conftest import count_compilations

report = []

def measure(compile, *args, **kwargs):
    with count_compilations() as counted:
        out = compile(*args, **kwargs)
    report.append(vars(counted))
    return out

def unrelated(seed):
    for i in range(3):
        jax.jit(lambda x: x * (seed + i) + 1)(jax.numpy.arange(3.0))
"""
BOTH_ENVS = """
import envrax, envrax_classic
from _jax.test_cache import QuickEnv

envrax.register("Quick-v0", QuickEnv, QuickEnv().config)
unrelated(os.getpid())
for name in ("classic/CartPole-v0", "Quick-v0"):
    measure(envrax.make, name)
    unrelated(os.getpid() + 10)
    vec_env = measure(envrax.make_vec, name, n_envs=4)
    rng = jax.random.key(1)
    with count_compilations() as counted:
        vec_env.step(vec_env.reset(rng)[1], [0, 1, 1, 0])
    assert counted.count == 0, counted
"""
PRINT = "print(json.dumps(report))"


def run_twice(run_python: Callable[..., str], code: str, **environment: str) -> list[Any]:
    """What two processes, one after the other, report."""
    script = COUNTING + code + PRINT
    return [json.loads(run_python(script, **environment).splitlines()[-1]) for _ in range(2)]


def assert_second_compiles_nothing(reports: list[Any]) -> None:
    first, second = reports
    assert first and len(first) == len(second)
    for one, two in zip(first, second, strict=True):
        assert one["misses"] > 0
        assert one["count"] == one["hits"] + one["misses"]
        assert two["misses"] == 0
        assert two["hits"] == two["count"] == one["count"]


def test_two_processes(run_python: Any, tmp_path: Path) -> None:
    """CartPole and an env that compiles in a millisecond, with unrelated programs in between."""
    cache_dir = str(tmp_path / "cache")
    assert_second_compiles_nothing(run_twice(run_python, BOTH_ENVS, ENVRAX_CACHE_DIR=cache_dir))


@pytest.mark.slow
def test_two_processes_with_a_cache_of_the_users_own(run_python: Any, tmp_path: Path) -> None:
    users, default = tmp_path / "users", tmp_path / "default"
    environment = {"ENVRAX_CACHE_DIR": str(default), "JAX_COMPILATION_CACHE_DIR": str(users)}
    assert_second_compiles_nothing(run_twice(run_python, BOTH_ENVS, **environment))
    assert list(users.glob("*-cache")) and not default.exists()
