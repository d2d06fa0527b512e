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
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

from benchmarks.measure import Values

EXAMPLE = Path(__file__).parents[1] / "examples" / "many_devices.py"


def sigkill(n_kills: int = 20, seed: int = 0) -> list[Values]:
    """
    Kill a training until it is over, then another one, until there were enough kills.

    The moments are uniform over the time that a process takes which is not killed.
    """
    moments, rows, same = random.Random(seed), dict[str, dict[str, float]](), list[bool]()
    with TemporaryDirectory() as scratch:
        root = Path(scratch)
        _live(root, "cache", until=None)  # fills the compile cache
        begin = time.perf_counter()
        _live(root, "whole", until=None)
        seconds = time.perf_counter() - begin
        while len(rows) < n_kills:
            folder, over = f"killed-{len(same)}", False
            while not over:
                moment = moments.uniform(0, seconds) if len(rows) < n_kills else None
                over, told = _live(root, folder, moment)
                if not over and moment is not None:
                    found = {"second": moment, "calls reported": told}
                    found["calls saved"] = _last(root / folder)
                    rows[f"kill {len(rows) + 1}"] = found
            same.append(_equal(_end(root / folder), _end(root / "whole")))
    ends = {"trainings": len(same), "equal to the bit": sum(same)}
    rows = {"not killed": {"second": seconds}, **rows, "ends": ends}
    return [Values("PPO on CartPole, 20 calls of 8 updates, killed", rows)]


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
