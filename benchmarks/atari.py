# pyright: reportMissingImports=false
"""JAXtari's pixels and objects: their speed beside ALE, and what PPO learns from objects."""

import importlib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, cast

import numpy as np

from benchmarks.measure import Table, Values, Work, available, compare
from benchmarks.rollout import of_vec_env
from envrax import AtariPreprocessing, FrameStackObservation, RepeatAction, make_vec, register

N_ACTIONS = 4
FRAMES = 4  # of a step, on all sides
PPO = Path(__file__).parents[1] / "examples/ppo.py"
LEARNED = {"pong": 4_000_000, "boxing": 4_000_000}  # steps, over all slots
POINTS = 10  # of a curve


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


def learned() -> list[Values]:
    """`examples/ppo.py` on objects: the return of 100 episodes, and the curve."""
    ppo = _example()
    adapter = importlib.import_module("envrax.interop.jaxtari")
    returns: dict[str, dict[str, float]] = {}
    curves: list[Values] = []
    for game, steps in LEARNED.items():
        config = adapter.PeerConfig(id=game)
        repeat = cast(Any, RepeatAction)(num_repeats=FRAMES)
        register(f"{game}-v0", adapter.JaxtariEnv, config, wrappers=[repeat])
        options = {"total_steps": steps, "n_steps": 64, "entropy_weight": 0.01}
        _, curve, before, after = ppo.run(ppo.PPO(ppo.Options(env=f"{game}-v0", **options)))
        row = {"before": before.mean(), "its spread": before.std()}
        returns[game] = {**row, "after": after.mean(), "spread": after.std()}
        evenly = np.linspace(curve[0, 0], curve[0, -1], POINTS)
        points = curve[:, np.searchsorted(curve[0], evenly)].T
        rows = {f"{at / 1e6:.2f} M steps": {"return": value} for at, value in points.tolist()}
        curves.append(Values(f"{game}, while exploring", rows))
    return [Values("PPO, mean return of 100 episodes", returns), *curves]


def _example() -> Any:
    spec = cast(Any, spec_from_file_location("ppo", PPO))
    module = cast(Any, module_from_spec(spec))
    importlib.import_module("sys").modules["ppo"] = module  # for its dataclasses
    spec.loader.exec_module(module)
    return module
