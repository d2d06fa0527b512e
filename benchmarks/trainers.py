# pyright: reportMissingImports=false
"""Environments of envrax behind the interfaces of trainers, on CartPole."""

import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from benchmarks import sb3_cartpole
from benchmarks.measure import Table, Work, available, compare
from envrax import RecordEpisodeStatistics, interop, make_vec

ID = "classic/CartPole-v0"
SIZES = 8, 64, 1024


def vector_envs(sizes: tuple[int, ...] = SIZES) -> list[Table]:
    """
    `to_gymnasium_vec` in a Python loop, against vector environments without JAX.

    The others reset in the step after the end and do not return the last observation.
    """
    tables: list[Table] = []
    for n in sizes:
        steps = max(20, 200_000 // (n + 100))
        peers = {"Gymnasium, `CartPoleVectorEnv`": _gymnasium, "EnvPool, C++ threads": _envpool}
        made = dict(available(peers))
        envs = {"envrax, `to_gymnasium_vec`": _ours(n), **{x: make(n) for x, make in made.items()}}
        times = compare({name: _loop(env.step, _drawn(n, steps)) for name, env in envs.items()})
        for env in envs.values():
            env.close()
        per_second = {x: n * steps / statistics.median(times[x]) for x in times}
        named = {f"{x}; {per_second[x]:,.0f} slots a second": times[x] for x in times}
        tables.append(Table(f"CartPole, N = {n}, Python loop", named, steps))
    return tables


def overhead(sizes: tuple[int, ...] = SIZES) -> list[Table]:
    """What the bridges add to `VecEnv.step` in a Python loop that waits for each step."""
    tables: list[Table] = []
    for n in sizes:
        steps = 1000
        ways = {
            "`VecEnv.step`, `jax.block_until_ready`": _by_hand(n, steps, jax.block_until_ready),
            "the same, `final_obs=True`, `jax.device_get`": _by_hand(
                n, steps, jax.device_get, final_obs=True
            ),
            "`to_gymnasium_vec`": _loop(_ours(n).step, _drawn(n, steps)),
            '`to_gymnasium_vec`, `array="jax"`': _loop(_waiting(_ours(n, "jax")), _drawn(n, steps)),
        }
        peers = {
            "torch": ('`to_gymnasium_vec`, `array="torch"`', _torch_loop),
            "stable-baselines3": ("`to_sb3`", _sb3_loop),
        }
        for _, (name, make) in available(peers):
            ways[name] = make(n, steps)
        title = f"CartPole, N = {n}, Python loop that waits for each step"
        tables.append(Table(title, compare(ways), steps))
    return tables


def sb3(seeds: tuple[int, ...] = (0, 1, 2), steps: int = 100_000) -> list[Table]:
    """
    Stable-Baselines3's PPO, tuned for CartPole, with 8 slots of ours and with its own environments.

    The time is that of `learn`, with what is compiled there. Both policies are evaluated on
    Gymnasium's CartPole.
    """
    if not list(available({"stable-baselines3": None})):
        return []
    importlib.import_module("torch").set_num_threads(1)
    env_util = importlib.import_module("stable_baselines3.common.env_util")
    evaluation = importlib.import_module("stable_baselines3.common.evaluation")
    test = env_util.make_vec_env("CartPole-v1", n_envs=8, seed=1_000_003)
    makers: dict[str, Callable[[int], Any]] = {
        "`to_sb3(make_vec(...))`": lambda seed: _ours_in_sb3(8),
        "`make_vec_env` of the library": lambda seed: env_util.make_vec_env(
            "CartPole-v1", n_envs=8, seed=seed
        ),
    }
    seconds: dict[str, list[float]] = {name: [] for name in makers}
    means: dict[str, list[float]] = {name: [] for name in makers}
    for seed in seeds:
        for name, make in makers.items():
            model = sb3_cartpole.ppo(make(seed), seed)
            begin = time.perf_counter()
            model.learn(steps)
            seconds[name].append(time.perf_counter() - begin)
            found = evaluation.evaluate_policy(model, test, n_eval_episodes=100)
            means[name].append(float(found[0]))
            model.get_env().close()
    test.close()
    named = {f"{x}; evaluated at {_shown(means[x])}": seconds[x] for x in seconds}
    return [Table(f"Stable-Baselines3's PPO on CartPole, {steps:,} steps", named, 1)]


def _shown(means: list[float]) -> str:
    return ", ".join(f"{mean:.0f}" for mean in means)


def _ours(n: int, array: Any = "numpy") -> Any:
    env = interop.to_gymnasium_vec(make_vec(ID, n), array=array)
    env.reset(seed=0)
    return env


def _ours_in_sb3(n: int) -> Any:
    return interop.to_sb3(make_vec(ID, n, wrappers=[RecordEpisodeStatistics], max_steps=500))


def _gymnasium(n: int) -> Any:
    gymnasium = importlib.import_module("gymnasium")
    env = gymnasium.make_vec("CartPole-v1", n, vectorization_mode="vector_entry_point")
    env.reset(seed=0)
    return env


def _envpool(n: int) -> Any:
    env = importlib.import_module("envpool").make("CartPole-v1", env_type="gymnasium", num_envs=n)
    env.reset()
    return env


def _drawn(n: int, steps: int) -> Sequence[Any]:
    """Random actions, drawn beforehand."""
    return list(np.random.default_rng(1).integers(0, 2, (steps, n), dtype=np.int32))


def _loop(step: Callable[[Any], object], actions: Sequence[Any]) -> Work:
    def work() -> object:
        for chosen in actions:
            step(chosen)
        return None

    return work


def _by_hand(n: int, steps: int, wait: Callable[[Any], object], **options: Any) -> Work:
    env = make_vec(ID, n, **options)
    start, actions = env.reset(jax.random.key(0))[1], _drawn(n, steps)

    def work() -> object:
        state = start
        for chosen in actions:
            obs, state, *rest = env.step(state, chosen)
            wait((obs, *rest))
        return None

    return work


def _waiting(env: Any) -> Callable[[Any], object]:
    return lambda actions: jax.block_until_ready(env.step(actions))


def _torch_loop(n: int, steps: int) -> Work:
    torch = importlib.import_module("torch")
    return _loop(_ours(n, "torch").step, [torch.from_numpy(x) for x in _drawn(n, steps)])


def _sb3_loop(n: int, steps: int) -> Work:
    env = interop.to_sb3(make_vec(ID, n))
    env.reset()
    return _loop(env.step, _drawn(n, steps))
