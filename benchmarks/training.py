"""From process start to a trained policy: the example PPO and Stable-Baselines3's."""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Table, available

HERE = Path(__file__).parent
GOAL = 475
EXAMPLE = "envrax, `examples/ppo.py`"
PEER = "stable-baselines3"


def cartpole(seeds: tuple[int, ...] = (0, 1, 2)) -> list[Table]:
    """
    CartPole, without a compile cache.

    The clock stops when the last 100 training episodes returned 475 on average. The policy is
    evaluated after that.
    """
    scripts: dict[str, list[str]] = {EXAMPLE: ["ppo_cartpole.py"]}
    for name, script in available({PEER: "sb3_cartpole.py"}):
        scripts[f"{name}, PyTorch with one thread"] = [script, "1"]
        scripts[f"{name}, PyTorch as it comes"] = [script, "0"]
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in scripts}
    for seed in seeds:
        for name, (script, *options) in scripts.items():
            found[name].append(_run([str(HERE / script), str(seed), *options]))
    seconds: dict[str, list[float]] = {}
    for name, runs in found.items():
        worst = min(mean for _, mean in runs)
        seconds[f"{name}; evaluated at {worst:.0f} or more"] = [run[0] for run in runs]
    title = f"PPO on CartPole, from process start to {GOAL} in training, {len(seeds)} seeds"
    return [Table(title, seconds, 1)]


def _run(command: list[str]) -> tuple[float, float]:
    """Seconds until the script prints "trained", and the mean return that it prints afterwards."""
    unset = "JAX_COMPILATION_CACHE_DIR", "PYTHONDONTWRITEBYTECODE"
    environment = {k: v for k, v in os.environ.items() if k not in unset}
    environment["PYTHONUNBUFFERED"] = "1"
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        begin = time.perf_counter()
        seconds = None
        mean = None
        with subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process:
            for line in process.stdout or ():
                if line.startswith("trained"):
                    seconds = time.perf_counter() - begin
                if match := re.match(r"(\S+) after", line):
                    mean = float(match[1])
        if seconds is None or mean is None:
            errors.seek(0)
            raise RuntimeError(f"{command} was not trained; it said: {errors.read()}")
    return seconds, mean
