"""`MultiVecEnv` against a Python loop over its members, and the time to compile it."""

import time
from typing import Any

import jax

from benchmarks.measure import Table, Work, compare
from envrax import JitWrapper, MultiVecEnv, VecEnv
from envrax_classic import Acrobot, CartPole, MountainCar, Pendulum

CLASSES = (CartPole, MountainCar, Pendulum, Acrobot)
COMPILATIONS = 3


def step(num_envs: int = 64, steps: int = 200) -> list[Table]:
    """One step of M members: one call of the fleet against M calls."""
    tables: list[Table] = []
    for kind in ("equal", "different"):
        for m in (1, 4, 16):
            ways = _ways(_members(kind, m, num_envs), steps)
            title = f"{m} {kind} members, N = {num_envs}, Python loop"
            tables.append(Table(title, compare(ways), steps))
    return tables


def compile_time(num_envs: int = 64) -> list[Table]:
    """`MultiVecEnv.compile()` without a compile cache, for one member and for sixteen."""
    tables: list[Table] = []
    for kind in ("equal", "different"):
        seconds: dict[str, list[float]] = {"M = 1": [], "M = 16": []}
        for _ in range(COMPILATIONS):
            for m, found in zip((1, 16), seconds.values(), strict=True):
                jax.clear_caches()
                # `None` means no persistent cache; all members must say so.
                fleet = MultiVecEnv(_members(kind, m, num_envs, cache_dir=None))
                begin = time.perf_counter()
                fleet.compile(progress=False)
                found.append(time.perf_counter() - begin)
        tables.append(Table(f"`compile()` of {kind} members, all of it", seconds, 1))
    return tables


def _members(kind: str, m: int, num_envs: int, **jit: Any) -> list[VecEnv[Any, Any, Any, Any]]:
    """Different members differ in class, and beyond the fourth in their time limit."""
    classes = [CLASSES[i % len(CLASSES)] for i in range(m)]
    envs: list[Any] = [
        cls(cls().config.replace(max_steps=200 + i)) for i, cls in enumerate(classes)
    ]
    if kind == "equal":  # one environment, as `make_multi_vec` builds equal names
        envs = [CartPole()] * m
    if jit:
        jitted = {id(env): JitWrapper(env, pre_warm=False, **jit) for env in envs}
        envs = [jitted[id(env)] for env in envs]
    return [VecEnv(env, num_envs) for env in envs]


def _ways(members: list[VecEnv[Any, Any, Any, Any]], steps: int) -> dict[str, Work]:
    fleet = MultiVecEnv(members)
    _, start = fleet.reset(jax.random.key(0))
    actions = [member.action_space.sample(jax.random.key(1)) for member in members]

    def together() -> object:
        states = start
        for _ in range(steps):
            _, states, *_ = fleet.step(states, actions)
        return jax.block_until_ready(states)

    def one_by_one() -> object:
        states = start
        for _ in range(steps):
            states = [
                member.step(state, action)[1]
                for member, state, action in zip(members, states, actions, strict=True)
            ]
        return jax.block_until_ready(states)

    return {"`MultiVecEnv.step`": together, "a loop over the members": one_by_one}
