"""CartPole against the limit of one core: `limit.c`, built here when there is a compiler."""

import ctypes
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.measure import Table, Work, compare
from envrax import VecEnv
from envrax.classic import CartPole

# Sums may be taken in any order, as XLA takes them.
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fassociative-math", "-fno-signed-zeros")
C = "C, one core"
APART = 200  # steps before the first that is timed, so that the slots end at different times


def limit(sizes: tuple[int, ...] = (64, 4096, 65_536)) -> list[Table]:
    """A step of the whole batch, with actions that are given, or drawn in the loop."""
    if not (compiler := shutil.which("cc") or shutil.which("gcc")):
        print("left out: there is no C compiler")
        return []
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "limit.so"
        source = str(Path(__file__).with_suffix(".c"))
        flags = (*FLAGS, "-fno-trapping-math", "-shared", "-fPIC")
        subprocess.run([compiler, *flags, source, "-o", str(library), "-lm"], check=True)
        program = ctypes.CDLL(str(library))
    return [_table(program, n, drawn) for n in sizes for drawn in (False, True)]


def _table(program: Any, n: int, drawn: bool) -> Table:
    steps = max(20, min(4000, 1_600_000 // n))
    ways = {
        C: _in_c(program, n, steps, drawn),
        "envrax": _ours(VecEnv(CartPole(), n), steps, drawn),
        "envrax, with resets that cost nothing": _ours(_Free(n), steps, drawn),
    }
    how = "drawn in the loop" if drawn else "given"
    return Table(f"CartPole, N = {n}, actions {how}", compare(ways), steps)


class _Free:
    """The steps of `VecEnv` with resets that cost nothing: an episode begins in the first state."""

    def __init__(self, n: int) -> None:
        self.env = CartPole()
        self.n_slots = n
        self.action_space = self.env.action_space.batch(n)

    def reset(self, rng: Any) -> Any:
        return jax.vmap(self.env.reset)(jax.random.split(rng, self.n_slots))

    def step(self, state: Any, actions: Any) -> Any:
        first_obs, first = self.env.reset(jax.random.key(0))

        def one(state: Any, action: Any) -> Any:
            obs, state, reward, done, info = self.env.step(state, action)
            new_obs, new = jax.tree.map(partial(jnp.where, done), (first_obs, first), (obs, state))
            return new_obs, new.replace(rng=state.rng), reward, done, info

        return jax.vmap(one)(state, actions)


def _ours(batch: Any, steps: int, drawn: bool) -> Work:
    def body(carry: Any, given: Any) -> Any:
        state, rng = carry
        if drawn:
            rng, key = jax.random.split(rng)
            given = batch.action_space.sample(key)
        obs, state, reward, done, _ = batch.step(state, given)
        return (state, rng), (jnp.sum(obs), jnp.sum(reward), jnp.sum(done))

    def scanned(n_steps: int) -> Any:
        given = None if drawn else batch.action_space.batch(n_steps).sample(jax.random.key(1))
        return jax.jit(lambda carry: jax.lax.scan(body, carry, given, length=n_steps))

    start = batch.reset(jax.random.key(0))[1], jax.random.key(2)
    carry = scanned(APART)(start)[0]
    run = scanned(steps)
    return lambda: jax.block_until_ready(run(carry))


def _in_c(program: Any, n: int, steps: int, drawn: bool) -> Work:
    given = np.random.default_rng(1).integers(0, 2, (steps, n), np.int32)
    state = np.zeros((4, n), np.float32)
    age = np.zeros(n, np.int32)
    keys = np.zeros((n, 2), "u4")
    obs = np.zeros((n, 4), np.float32)
    reward = np.zeros(n, np.float32)
    done = np.zeros(n, "u1")
    actions = np.zeros(n, np.int32)
    sums = np.zeros(3)
    arrays = state, age, keys, obs, reward, done, actions, sums

    def at(x: np.ndarray) -> ctypes.c_void_p:
        return ctypes.c_void_p(x.ctypes.data)

    program.reset(n, at(state), at(age), at(keys))

    def work() -> np.ndarray:
        program.rollout(n, steps, None if drawn else at(given), *map(at, arrays))
        return sums

    program.rollout(n, APART, None, *map(at, arrays))
    sums[:] = 0
    work()
    assert 20 < sums[1] / sums[2] < 24, "episodes under random actions take some 22 steps"
    return work
