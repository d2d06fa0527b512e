"""
`to_gymnax(env).step` under a trainer's own `vmap`, against the library's environment in that loop.

    python -m benchmarks jax-trainers
"""

import time
from typing import Any

import jax

from benchmarks import interop_loops as loops
from benchmarks.interop_speed import Rollout
from benchmarks.measure import Table, compare
from envrax import make
from envrax.interop import to_gymnax

SIZES, SECONDS = (64, 1024), 0.4
# Library, id, and how many steps a scan has.
CASES = [
    ("craftax", "Craftax-Classic-Symbolic-v1", 5),
    ("jumanji", "Maze-v0", 20),
    ("gymnax", "CartPole-v1", 100),
    ("gymnax", "Breakout-MinAtar", 100),
]


def bridged(id: str, n: int) -> loops.Loop:
    """The loop that PureJaxRL and rejax write, around `to_gymnax`."""
    env = to_gymnax(make(id, pre_warm=False, cache_dir=None))
    params = env.default_params
    keys = jax.random.split(jax.random.key(0), n)
    state = jax.vmap(env.reset, (0, None))(keys, params)[1]
    start = state, jax.vmap(env.env.action_mask)(state.env_state)

    def step(carry: Any, actions: Any, rng: jax.Array) -> Any:
        keys = jax.random.split(rng, n)
        vmapped = jax.vmap(env.step, (0, 0, 0, None))
        obs, state, reward, done, info = vmapped(keys, carry[0], actions, params)
        return (state, info.get("action_mask")), (obs, reward, done)

    return loops.Loop(start, step, None if start[1] is None else lambda carry: carry[1])


def speed() -> list[Table]:
    """A table for each environment and number of slots."""
    return [_table(*case, n) for case in CASES for n in SIZES]


def _table(library: str, id: str, least: int, n: int) -> Table:
    name = f"{library}/{id}"
    vec_env, space = loops.ours(name, n)
    makers = {
        "to_gymnax": lambda: bridged(name, n),
        "VecEnv": lambda: vec_env,
        library: lambda: getattr(loops, library)(id, n),
    }
    ways = {way: Rollout(make(), space, least) for way, make in makers.items()}
    for way in ways.values():
        way(1)
        way(1)  # a library's state may have other types after a step
    chunks, slowest = 1, 0.0
    while slowest < SECONDS:
        chunks = 2 * chunks if slowest else 1
        times = list[float]()
        for way in ways.values():
            begin = time.perf_counter()
            way(chunks)
            times.append(time.perf_counter() - begin)
        slowest = max(times)
    works = {way: lambda run=run: run(chunks) for way, run in ways.items()}
    # Whatever runs after the library's own loop is slower by some percent, even the same program.
    seconds = compare(works, before=lambda way: ways[way](1))
    return Table(f"{name}, {n} slots", seconds, chunks * least)
