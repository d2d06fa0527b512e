"""The compile cache between processes: what one has compiled, no other compiles again."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CODE = """
import os, sys, warnings
warnings.simplefilter("error")
from conftest import count_compilations
import jax, jax.numpy as jnp
import envrax
from _jax.test_cache import QuickEnv
from envrax.wrappers.vector import NormalizeReward

class Eager(QuickEnv):  # as of a library: it compiles while it is built
    def __init__(self, config=None):
        super().__init__(config)
        self.walls = jnp.zeros((3, 5)).at[1].set(jnp.arange(5) * 2.0)

envrax.register("Quick-v0", Eager, QuickEnv().config)  # compiles in a millisecond
key = jax.random.key(0)
weights = jnp.ones((4, 2))
given = dict(cache_dir=None) if CACHE is None else {}

def policy(state, obs, rng):
    return jax.random.categorical(rng, obs @ weights), state, None

def unrelated():
    for i in range(3):
        jax.jit(lambda x: x * (os.getpid() + i) + 1)(jnp.arange(3.0))

unrelated()
print("ready", flush=True)
sys.stdin.readline()
with count_compilations() as counted:
    single = envrax.make("classic/CartPole-v0", **given)
    batch, quick = (envrax.make_vec(x, 4, **given) for x in ("classic/CartPole-v0", "Quick-v0"))
    for env in (batch, NormalizeReward(batch), single, quick):
        act = None if env is quick else policy
        at, _ = envrax.rollout(env, act, envrax.start(env, key), 3)
        envrax.evaluate(env, act, key, 3)
    found = envrax.evaluate_grid(single, policy, key, {"max_steps": [3, 4]}, 2)
unrelated()
with count_compilations() as first_calls:
    batch.step(batch.reset(jax.random.key(1))[1], [0, 1, 1, 0])
assert first_calls.count == 0
print(counted.misses, counted.count - counted.hits, found.lengths.tolist())
"""


def run(tmp_path: Path, n_processes: int, cache: str | None = "default", **environ: str) -> Any:
    """What processes that compile at the same time print: misses, programs compiled, a result."""
    options: Any = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environ}
    environ["ENVRAX_CACHE_DIR"] = str(tmp_path / "default")
    command = [sys.executable, "-c", f"CACHE = {cache!r}\n{CODE}"]
    processes = [
        subprocess.Popen(command, cwd=tmp_path, env=environ, text=True, **options)
        for _ in range(n_processes)
    ]
    pipes: list[Any] = [(process.stdin, process.stdout) for process in processes]
    assert [output.readline() for _, output in pipes] == ["ready\n"] * n_processes
    for given, _ in pipes:
        given.write("go on\n")
        given.flush()
    printed = [process.communicate(timeout=300) for process in processes]
    assert not any(process.returncode for process in processes), printed
    return [text.split(maxsplit=2) for text, _ in printed]


@pytest.mark.integration
def test_a_later_process_compiles_nothing(tmp_path: Path) -> None:
    """Whatever is compiled in between; two that fill one cache at once are right, too."""
    (misses, _, result), (_, _, other) = run(tmp_path, 2)
    assert int(misses) >= 7 and other == result
    assert run(tmp_path, 1) == [["0", "0", result]]


@pytest.mark.integration
@pytest.mark.slow
def test_a_cache_of_the_users_own(tmp_path: Path) -> None:
    users = tmp_path / "users"
    run(tmp_path, 1, JAX_COMPILATION_CACHE_DIR=str(users))
    assert list(users.glob("*-cache")) and not (tmp_path / "default").exists()


@pytest.mark.integration
def test_nothing_is_written_for_an_environment_that_was_not_cached(tmp_path: Path) -> None:
    [[misses, *_]] = run(tmp_path, 1, cache=None)
    assert misses == "0"
    assert not [*tmp_path.glob("**/*cache*")] and not (tmp_path / "default").exists()
