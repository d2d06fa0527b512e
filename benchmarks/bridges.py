# pyright: reportMissingImports=false
"""What one step of a batch costs in trainers of others, against Gymnasium's `SyncVectorEnv`."""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.measure import Table, Work, compare

STEPS = 50


def steps(sizes: tuple[int, ...] = (8, 64, 512)) -> list[Table]:
    """CartPole with random actions: bare, in skrl's wrapper and in TorchRL's `rollout`."""
    importlib.import_module("torch").set_num_threads(1)
    loops: dict[str, tuple[str, Callable[[Any], Work]]] = {
        "": ("SameStep", _bare),
        ", in skrl": ("SameStep", _skrl),
        ", in TorchRL": ("Disabled", _torchrl),
    }
    tables: list[Table] = []
    for where, (mode, loop) in loops.items():
        for n in sizes:
            ways = {"envrax": loop(_ours(n, mode)), "Gymnasium": loop(_theirs(n, mode))}
            tables.append(Table(f"CartPole, {n} slots{where}", compare(ways), STEPS))
    return tables


def _ours(n: int, mode: str) -> Any:
    import envrax
    from envrax.interop import to_gymnasium_vec

    return to_gymnasium_vec(envrax.make_vec("classic/CartPole-v0", n), autoreset_mode=mode)


def _theirs(n: int, mode: str) -> Any:
    import gymnasium

    make = partial(gymnasium.make, "CartPole-v1")
    return gymnasium.vector.SyncVectorEnv([make] * n, autoreset_mode=mode)


def _bare(envs: Any) -> Work:
    envs.action_space.seed(0)
    envs.reset(seed=0)
    actions = [envs.action_space.sample() for _ in range(STEPS)]

    def run() -> None:
        for action in actions:
            envs.step(action)

    return run


def _skrl(envs: Any) -> Work:
    import torch
    from skrl.envs.wrappers.torch import wrap_env

    env = wrap_env(envs)
    env.reset()
    actions = [torch.randint(2, (envs.num_envs, 1)) for _ in range(STEPS)]

    def run() -> None:
        for action in actions:
            env.step(action)

    return run


def _torchrl(envs: Any) -> Work:
    from torchrl.envs import GymWrapper

    env = GymWrapper(envs)
    env.set_seed(0)
    return lambda: env.rollout(STEPS, break_when_any_done=False)
