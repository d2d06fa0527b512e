# pyright: reportMissingImports=false
"""Breakout: JAXtari's pixels and objects against ALE, by EnvPool and by ALE's own vector class."""

import importlib
from typing import Any

import numpy as np

from benchmarks.measure import Table, Work, available, compare
from benchmarks.rollout import of_vec_env
from envrax import AtariPreprocessing, FrameStackObservation, RepeatAction, make_vec

N_ACTIONS = 4
FRAMES = 4  # of a step, on all sides


def breakout(sizes: tuple[int, ...] = (64, 1024)) -> list[Table]:
    """One step of a batch, which is four frames, with random actions and auto-reset."""
    tables: list[Table] = []
    for n in sizes:
        steps = max(2, 640 // n)
        pixels = [AtariPreprocessing(), FrameStackObservation(n_stack=4)]
        ways = {
            "84 x 84 grey pixels, stacked": _ours(n, steps, "pixels", pixels),
            "objects": _ours(n, steps, "objects", [RepeatAction(num_repeats=FRAMES)]),
        }
        peers = {"EnvPool, ALE": _envpool, "ALE-py, ALE's own vector class": _ale}
        ways |= {name: make(n, steps) for name, make in available(peers)}
        tables.append(Table(f"Breakout, N = {n}", compare(ways), steps))
    return tables


def _ours(n: int, steps: int, observation: str, wrappers: list[Any]) -> Work:
    options = {"observation": observation}
    env = make_vec("jaxtari/breakout", n, wrappers=wrappers, options=options, pre_warm=False)
    return of_vec_env(env, N_ACTIONS, steps)


def _envpool(n: int, steps: int) -> Work:
    make = importlib.import_module("envpool").make
    return _on_the_host(make("Breakout-v5", env_type="gymnasium", num_envs=n), n, steps)


def _ale(n: int, steps: int) -> Work:
    make = importlib.import_module("ale_py.vector_env").AtariVectorEnv
    return _on_the_host(make("breakout", n, reward_clipping=False), n, steps)


def _on_the_host(env: Any, n: int, steps: int) -> Work:
    env.reset()
    actions = np.random.default_rng(1).integers(0, N_ACTIONS, (steps, n), dtype=np.int32)

    def work() -> object:
        for row in actions:
            env.step(row)
        return None

    return work
