"""CartPole against the limit of one core: `limit.c`, built here when there is a compiler."""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.measure import Table, Work, compare
from envrax import VecEnv
from envrax_classic import CartPole

# Sums may be taken in any order, as XLA takes them.
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fassociative-math", "-fno-signed-zeros")
C = "C, one core"


def limit(sizes: tuple[int, ...] = (64, 4096, 65_536), repeats: int = 15) -> list[Table]:
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
    return [_table(program, n, drawn, repeats) for n in sizes for drawn in (False, True)]


def _table(program: Any, n: int, drawn: bool, repeats: int) -> Table:
    steps = max(20, min(4000, 1_600_000 // n))
    ways = {
        C: _in_c(program, n, steps, drawn),
        "envrax": _ours(VecEnv(CartPole(), n), steps, drawn),
        "envrax, without resets": _ours(_Endless(n), steps, drawn),
    }
    how = "drawn in the loop" if drawn else "given"
    return Table(f"CartPole, N = {n}, actions {how}", compare(ways, repeats), steps)


class _Endless:
    """The steps alone: what `VecEnv` would do if no episode ended."""

    def __init__(self, n: int) -> None:
        self.env = CartPole()
        self.n_slots, self.action_space = n, self.env.action_space.batch(n)

    def reset(self, rng: Any) -> Any:
        return jax.vmap(self.env.reset)(jax.random.split(rng, self.n_slots))

    def step(self, state: Any, actions: Any) -> Any:
        return jax.vmap(self.env.step)(state, actions)


def _ours(batch: Any, steps: int, drawn: bool) -> Work:
    def body(carry: Any, given: Any) -> Any:
        state, rng = carry
        if drawn:
            rng, key = jax.random.split(rng)
            given = batch.action_space.sample(key)
        obs, state, reward, done, _ = batch.step(state, given)
        return (state, rng), (jnp.sum(obs), jnp.sum(reward), jnp.sum(done))

    given = batch.action_space.batch(steps).sample(jax.random.key(1))
    state = batch.reset(jax.random.key(0))[1]
    run = jax.jit(lambda carry: jax.lax.scan(body, carry, None if drawn else given, length=steps))
    return lambda: jax.block_until_ready(run((state, jax.random.key(2))))


def _in_c(program: Any, n: int, steps: int, drawn: bool) -> Work:
    given = np.random.default_rng(1).integers(0, 2, (steps, n), np.int32)
    state, age, keys = np.zeros((4, n), np.float32), np.zeros(n, np.int32), np.zeros((n, 2), "u4")
    obs, reward, done = np.zeros((n, 4), np.float32), np.zeros(n, np.float32), np.zeros(n, "u1")
    actions, sums = np.zeros(n, np.int32), np.zeros(3)

    def at(x: np.ndarray) -> ctypes.c_void_p:
        return ctypes.c_void_p(x.ctypes.data)

    program.reset(n, at(state), at(age), at(keys))
    buffers = [at(x) for x in (state, age, keys, obs, reward, done, actions, sums)]
    first = None if drawn else at(given)

    def work() -> np.ndarray:
        program.rollout(n, steps, first, *buffers)
        return sums

    work()
    assert np.isfinite(sums).all()
    assert 15 < sums[1] / sums[2] < 30, "episodes under random actions take some 22 steps"
    return work
