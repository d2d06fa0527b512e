"""`MultiVecEnv` against a Python loop over its members."""

from typing import Any

import jax

from benchmarks.measure import Table, Work, compare
from envrax import MultiVecEnv, VecEnv
from envrax.classic import Acrobot, CartPole, MountainCar, Pendulum

CLASSES = (CartPole, MountainCar, Pendulum, Acrobot)


def step(num_envs: int = 64, steps: int = 200) -> list[Table]:
    """One step of M members: one call of the fleet against M calls."""
    tables: list[Table] = []
    for kind in ("equal", "different"):
        for m in (1, 4, 16):
            ways = _ways(_members(kind, m, num_envs), steps)
            title = f"{m} {kind} members, N = {num_envs}, Python loop"
            tables.append(Table(title, compare(ways), steps))
    return tables


def _members(kind: str, m: int, num_envs: int) -> list[VecEnv[Any, Any, Any, Any]]:
    """Different members differ in class, and beyond the fourth in their time limit."""
    classes = [CLASSES[i % len(CLASSES)] for i in range(m)]
    envs: list[Any] = [
        cls(cls().config.replace(max_steps=200 + i)) for i, cls in enumerate(classes)
    ]
    if kind == "equal":  # one environment, as `make_multi_vec` builds equal names
        envs = [CartPole()] * m
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
