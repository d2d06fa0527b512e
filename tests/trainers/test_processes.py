# pyright: reportMissingImports=false
"""Bridges in several processes: workers of Gymnasium, and forks by hand."""

from collections.abc import Callable

# A hang ends the process with a traceback, and with it the test.
LIMIT = "import faulthandler; faulthandler.dump_traceback_later(240, exit=True)\n"
QUIET = "import warnings; warnings.simplefilter('ignore')  # JAX and Python warn of forks\n"


def test_workers_of_gymnasium(run_python: Callable[..., str]) -> None:
    """
    Each way to start processes equals `SyncVectorEnv`; a fork after JAX had started is refused.

    The first fork is before JAX: making an id starts no JAX in the process that forks.
    """
    said = run_python(
        LIMIT
        + QUIET
        + """
import gymnasium
import numpy as np

name = "envrax.interop.gymnasium_registration:envrax/classic.CartPole-v0"


def make(mode, **keywords):
    return gymnasium.make_vec(name, num_envs=2, vectorization_mode=mode, **keywords)


def played(envs):
    results = [envs.reset(seed=3)[0]]
    for action in np.random.default_rng(0).integers(0, 2, (60, 2)):
        results += envs.step(action)[:4]
    envs.close()
    return results


forked = played(make("async", vector_kwargs={"context": "fork"}))
peer = played(make("sync"))
spawned = [
    played(make("async", vector_kwargs={"context": context}))
    for context in ("spawn", "forkserver")
]
for results in (forked, *spawned):
    for ours, theirs in zip(results, peer, strict=True):
        np.testing.assert_array_equal(ours, theirs)
print(np.sum(peer[3::4]) > 2)
try:
    played(make("async", vector_kwargs={"context": "fork"}))
except RuntimeError as error:
    print(error)
"""
    )
    enough, error = said.strip().split("\n")
    assert enough == "True"
    assert error.startswith("to_gymnasium: reset: expected JAX to start in this process")
    assert 'context="spawn"' in error


def test_forks_after_jax_had_started(run_python: Callable[..., str]) -> None:
    """Whoever made the bridge, and whatever is called first: an error, and no hang."""
    said = run_python(
        LIMIT
        + QUIET
        + """
import multiprocessing
import envrax
from envrax.interop import to_dm_env, to_gymnasium, to_gymnasium_vec, to_sb3
from envrax.testing import CountingEnv, ImageEnv

context = multiprocessing.get_context("fork")


def in_a_fork(name, function):
    def call(answers):
        try:
            function()
            answers.put("no error")
        except BaseException as error:
            answers.put(f"{type(error).__name__}: {error}")

    answers = context.SimpleQueue()
    process = context.Process(target=call, args=(answers,))
    process.start()
    process.join(30)
    print(name, "|", "a hang" if process.is_alive() else answers.get())
    process.kill()


in_a_fork("before JAX", lambda: to_gymnasium(CountingEnv()).reset(seed=0))
made = to_gymnasium(ImageEnv(), render_mode="rgb_array")
made.reset(seed=0)
in_a_fork("reset", lambda: made.reset())
in_a_fork("step", lambda: made.step(0))
in_a_fork("render", lambda: made.render())
in_a_fork("in it", lambda: to_gymnasium(CountingEnv()).reset())
in_a_fork("batch", lambda: to_gymnasium_vec(envrax.VecEnv(CountingEnv(), 2), array="jax").reset())
in_a_fork("SB3", lambda: to_sb3(envrax.VecEnv(CountingEnv(), 2)).reset())
in_a_fork("dm_env", lambda: to_dm_env(CountingEnv()).reset())
in_a_fork("make", lambda: envrax.make("classic/Catch-v0"))
in_a_fork("twice", lambda: in_a_fork("in a fork of it", lambda: made.reset()))
print("here", "|", made.step(0)[1])
"""
    )
    rows = dict(line.split(" | ") for line in said.strip().split("\n"))
    assert rows.pop("before JAX") == rows.pop("twice") == "no error"
    assert float(rows.pop("here")) == 0.0
    assert rows.keys() == {
        *("reset", "step", "render", "in it", "batch", "SB3", "dm_env", "make"),
        "in a fork of it",
    }
    for name, answer in rows.items():
        assert answer.startswith("RuntimeError: ") and 'context="spawn"' in answer, (name, answer)


def test_a_fork_that_imports_envrax_first(run_python: Callable[..., str]) -> None:
    said = run_python(
        LIMIT
        + QUIET
        + """
import os
import jax.numpy as jnp

jnp.ones(3).block_until_ready()
if os.fork() == 0:
    from envrax.interop import to_gymnasium
    from envrax.testing import CountingEnv

    try:
        to_gymnasium(CountingEnv()).reset()
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
"""
    )
    assert 'context="spawn"' in said
