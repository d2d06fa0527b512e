"""
SIGKILL at random moments: what `examples/many_devices.py` goes on from, and how it ends.

    python -m benchmarks resume
"""

import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

EXAMPLE = Path(__file__).parents[1] / "examples" / "many_devices.py"


@dataclass(frozen=True)
class Kills:
    """The processes of some trainings, each of which is killed until it is over."""

    seconds: float  # of a process that is not killed
    kills: list[tuple[float, int, int]]  # second, calls reported by then, calls saved by then
    same: list[bool]  # whether the end of a training is that of the one that was not killed

    def markdown(self) -> str:
        rows = [f"| {second:.1f} | {told} | {saved} |" for second, told, saved in self.kills]
        return "\n".join(
            [
                "### PPO on CartPole, 20 calls of 8 updates, killed",
                "",
                "| second | calls reported | calls saved |",
                "|---|---|---|",
                *rows,
                "",
                f"Not killed, a process takes {self.seconds:.1f} s.",
                f"Equal to the bit to the one that was not killed: {sum(self.same)} of the "
                f"{len(self.same)} trainings, in parameters, optimiser and environments.",
            ]
        )


def sigkill(n_kills: int = 20, seed: int = 0) -> list[Kills]:
    """
    Kill a training until it is over, then another one, until there were enough kills.

    The moments are uniform over the time that a process takes which is not killed.
    """
    moments, kills, same = random.Random(seed), list[tuple[float, int, int]](), list[bool]()
    with TemporaryDirectory() as scratch:
        root = Path(scratch)
        _live(root, "cache", until=None)  # fills the compile cache
        begin = time.perf_counter()
        _live(root, "whole", until=None)
        seconds = time.perf_counter() - begin
        while len(kills) < n_kills:
            folder, over = f"killed-{len(same)}", False
            while not over:
                moment = moments.uniform(0, seconds) if len(kills) < n_kills else None
                over, told = _live(root, folder, moment)
                if not over and moment is not None:
                    kills.append((moment, told, _last(root / folder)))
            same.append(_equal(_end(root / folder), _end(root / "whole")))
    return [Kills(seconds, kills, same)]


def _live(root: Path, folder: str, until: float | None) -> tuple[bool, int]:
    """Run a process, killed after `until` seconds: whether it was over, and its last call."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, sys.path)),
        "JAX_COMPILATION_CACHE_DIR": str(root / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    command = [sys.executable, str(EXAMPLE), f"--checkpoint={root / folder}"]
    with (root / "told").open("w") as told, (root / "errors").open("w") as errors:
        process = subprocess.Popen(command, cwd=root, env=environment, stdout=told, stderr=errors)
        try:
            status = process.wait(until)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
    if status not in (0, -signal.SIGKILL):
        raise RuntimeError(f"{command} failed; it said: {(root / 'errors').read_text()}")
    calls = re.findall(r"call (\d+),", (root / "told").read_text())
    return status == 0, int(calls[-1]) if calls else 0


def _last(folder: Path) -> int:
    """The newest call that is saved."""
    found = [int(path.name) for path in folder.glob("*") if path.name.isdigit()]
    return max(found, default=0)


def _end(folder: Path) -> list[np.ndarray]:
    """The arrays that are saved last."""
    with ocp.CheckpointManager(folder) as manager:
        saved = manager.restore(_last(folder), args=ocp.args.StandardRestore())
    keys = jax.dtypes.prng_key
    return [
        np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, keys) else x)
        for x in jax.tree.leaves(saved)
    ]


def _equal(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return len(one) == len(other) and all(map(np.array_equal, one, other))
