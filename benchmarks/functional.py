# pyright: reportMissingImports=false
"""CartPole of Gymnasium's functional API: a `VecEnv` over its functions, and Gymnasium's batch."""

import importlib
from typing import Any

import jax

from benchmarks.measure import Table, Work, compare
from benchmarks.rollout import of_vec_env
from envrax import make_vec

ID = "phys2d/CartPole-v1"
GYMNASIUM = "`FunctionalJaxVectorEnv.step`"
STEPS = 200
WARM = 10  # rollouts: Gymnasium compiles a reset again for each number of slots that ended


def steps(sizes: tuple[int, ...] = (64, 4096)) -> list[Table]:
    """Steps from Python, with the same actions; the second table compares them with a scan."""
    tables: list[Table] = []
    for n in sizes:
        vec_env = make_vec(f"gymnasium/{ID}", n)
        start = vec_env.reset(jax.random.key(0))[1]
        actions = list(jax.random.randint(jax.random.key(1), (STEPS, n), 0, 2))
        ways = {
            "`VecEnv.step`": _ours(vec_env, start, actions),
            GYMNASIUM: _gymnasium(n, actions),
            "`VecEnv` in a scan": of_vec_env(vec_env, 2, STEPS, start),
        }
        seconds = compare(ways)
        tables.append(Table(f"CartPole, N = {n}, from Python", seconds, STEPS))
        backwards = {name: seconds[name] for name in reversed(ways)}
        tables.append(Table(f"CartPole, N = {n}, against a scan", backwards, STEPS))
    return tables


def _ours(vec_env: Any, start: Any, actions: list[jax.Array]) -> Work:
    def work() -> object:
        state = start
        for action in actions:
            state = vec_env.step(state, action)[1]
        return jax.block_until_ready(state)

    return work


def _gymnasium(n: int, actions: list[jax.Array]) -> Work:
    env = importlib.import_module("gymnasium").make_vec(ID, n)
    env.reset(seed=0)

    def work() -> object:
        for action in actions:
            env.step(action)
        return jax.block_until_ready(env.unwrapped.state)

    for _ in range(WARM):
        work()
    return work
