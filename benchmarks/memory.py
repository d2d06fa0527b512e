"""Memory and time of large batches, each case in a process of its own."""

import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.measure import Values
from envrax import FrameStackObservation, GrayscaleObservation, JaxEnv, ResizeObservation, VecEnv
from envrax.classic import CartPole, Catch


def pictures() -> JaxEnv[Any, Any, Any, Any]:
    """Catch as four grey pictures of 84 x 84 bytes."""
    return FrameStackObservation(ResizeObservation(GrayscaleObservation(Catch())))


CASES: dict[str, tuple[Any, int]] = {
    "CartPole": (CartPole, 1_000_000),
    "Catch, a picture of 20 x 10 x 3 bytes": (Catch, 100_000),
    "Catch, four grey pictures of 84 x 84 bytes": (pictures, 100_000),
}
WAYS = "`step`", "`step`, `donate=True`", "in a scan"
STEPS = 10


def scale() -> list[Values]:
    """A million slots of CartPole, 100,000 with pictures."""
    return [Values(f"{name}, {n:,} slots", _rows(name)) for name, (_, n) in CASES.items()]


def _rows(name: str) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    for way in WAYS:
        command = [sys.executable, "-m", "benchmarks.memory", name, way]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rows[way] = json.loads(done.stdout.splitlines()[-1])
    return rows


def _measure(name: str, way: str) -> dict[str, float]:
    make, n = CASES[name]
    env = VecEnv(make(), n, donate=way == WAYS[1])
    in_scan = way == WAYS[2]
    run: Any = jax.jit(lambda *given: _scan(env, *given), donate_argnums=(0, 1))
    obs, state = jax.eval_shape(env.reset, jax.random.key(0))
    actions = jax.eval_shape(env.action_space.sample, jax.random.key(1))
    if in_scan:
        run = run.lower(obs, state, actions).compile()
    env.compile(None)
    before = _most_memory()

    found = {"bytes of a state": size_of(state) / n, "bytes of an obs": size_of(obs) / n}
    actions = env.action_space.sample(jax.random.key(1))
    obs, state = env.reset(jax.random.key(0))
    jax.block_until_ready(state)
    seconds: list[float] = []
    for _ in range(4 if in_scan else STEPS):
        begin = time.perf_counter()
        if in_scan:
            obs, state = run(obs, state, actions)
        else:
            obs, state, *_ = env.step(state, actions)
        jax.block_until_ready((obs, state))
        seconds.append((time.perf_counter() - begin) / (STEPS if in_scan else 1))
    found["most memory, bytes per slot"] = (_most_memory() - before) / n
    return {**found, "ns per slot": 1e9 * statistics.median(seconds) / n}


def _scan(env: Any, obs: Any, state: Any, actions: Any) -> Any:
    def step(carry: Any, _: None) -> tuple[Any, None]:
        obs, state, *_rest = env.step(carry[1], actions)
        return (obs, state), None

    return jax.lax.scan(step, (obs, state), length=STEPS)[0]


def _most_memory() -> int:
    """The most memory that this process has held so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def size_of(tree: Any) -> int:
    """Bytes of the arrays in a tree; typed keys count as their uint32 data."""
    words = jax.eval_shape(lambda tree: jax.tree.map(_words, tree), tree)
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(words))


def _words(x: jax.Array) -> jax.Array:
    return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x


if __name__ == "__main__":
    print(json.dumps(_measure(*sys.argv[1:])))
