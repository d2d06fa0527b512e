# pyright: reportMissingImports=false
"""What `step` and `rollout` of simulators on the host cost, beside the simulators' own steps."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

import envrax
from benchmarks.measure import Table, Work, available, compare
from envrax.interop import from_envpool, from_gymnasium_vec, from_host

STEPS = 100
N = 8


def steps() -> list[Table]:
    """To compare two commits, run it in turns with each as `PYTHONPATH`."""
    libraries = available({"Gymnasium": _gymnasium, "EnvPool": _envpool})
    tables: list[Table] = []
    for name, make in [("your own", _own), *libraries]:
        by_hand, batch = make()
        ways = {"the simulators": by_hand, "`step`": _step(batch()), "`rollout`": _rollout(batch())}
        tables.append(Table(f"{name}, {N} slots", compare(ways), STEPS))
    return tables


class Count:
    """Counts its steps to fifty."""

    def reset(self, seed: int) -> Any:
        self.n = seed % 3
        self.obs = np.zeros(4, np.float32)
        return self.obs

    def step(self, action: Any) -> Any:
        self.n += 1
        return self.obs, 1.0, self.n > 50, False


def _own() -> tuple[Work, Callable[[], Any]]:
    spaces = envrax.Box(-9, 9, (4,)), envrax.Discrete(2)
    simulators = [Count() for _ in range(N)]

    def by_hand() -> None:
        for row in _actions():
            for i, (simulator, action) in enumerate(zip(simulators, row, strict=True)):
                if not hasattr(simulator, "n") or simulator.step(action)[2]:
                    simulator.reset(i)

    return by_hand, partial(from_host, Count, N, *spaces, final_obs=True)


def _gymnasium() -> tuple[Work, Callable[[], Any]]:
    import gymnasium

    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    make: Any = partial(gymnasium.make, "CartPole-v1")
    build: Any = partial(gymnasium.vector.SyncVectorEnv, [make] * N, autoreset_mode=mode)
    return _loop(build()), lambda: from_gymnasium_vec(build(), final_obs=True)


def _envpool() -> tuple[Work, Callable[[], Any]]:
    import envpool

    build: Any = partial(
        envpool.make, "CartPole-v1", env_type="gymnasium", num_envs=N, num_threads=1
    )
    return _loop(build()), lambda: from_envpool(build(), final_obs=True)


def _loop(simulator: Any) -> Work:
    simulator.reset()
    return lambda: [simulator.step(row) for row in _actions()]


def _actions() -> Any:
    return np.arange(STEPS * N).reshape(STEPS, N) // 3 % 2


def _step(env: Any) -> Work:
    at = [env.reset(jax.random.key(0))[1]]

    def work() -> None:
        for row in _actions():
            at[0] = env.step(at[0], row)[1]

    return work


def _rollout(env: Any) -> Work:
    at = [envrax.start(env, jax.random.key(0))]

    def work() -> None:
        at[0], played = envrax.rollout(env, None, at[0], STEPS)
        jax.block_until_ready(played)

    return work
