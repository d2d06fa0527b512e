"""`many_devices.py`: it goes on where it was killed, on several devices and processes."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import many_devices
import numpy as np
import pytest

FLAGS = ["--n-envs=8", "--calls=4", "--updates=2"]


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    """Of a process: it reads compiled programs that another one wrote."""
    cache = str(tmp_path / "cache")
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "JAX_COMPILATION_CACHE_DIR": cache}
    environment["PYTHONUNBUFFERED"] = ""  # else a line is two writes, which processes interleave
    return {"cwd": tmp_path, "env": {**os.environ, **environment}, "text": True}


def command(folder: Path, *flags: str) -> list[str]:
    return [sys.executable, many_devices.__file__, f"--checkpoint={folder}", *FLAGS, *flags]


def lines(settings: Any, folder: Path, n_devices: int) -> list[str]:
    """The mean returns, as text, of the calls that a process made."""
    flags = os.environ.get("XLA_FLAGS", "")
    flags += f" --xla_force_host_platform_device_count={n_devices}"
    there = {**settings, "env": {**settings["env"], "XLA_FLAGS": flags}}
    done = subprocess.run(command(folder), check=True, stdout=subprocess.PIPE, **there)
    return re.findall(r"call \d+, mean return .*", done.stdout)


def saved(folder: Path, call: int = 4) -> list[np.ndarray]:
    """The arrays of a checkpoint, as bytes."""
    import orbax.checkpoint as ocp

    with ocp.CheckpointManager(folder) as manager:
        restored = manager.restore(call, args=ocp.args.StandardRestore())
    is_key = lambda x: jnp.issubdtype(x.dtype, jax.dtypes.prng_key)  # noqa: E731
    leaves = jax.tree.leaves(restored)
    return [np.asarray(jax.random.key_data(x) if is_key(x) else x) for x in leaves]


def require_same(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    assert len(one) == len(other) > 10
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


@pytest.mark.slow
def test_a_training_that_was_killed_ends_as_if_it_was_not(settings: Any, tmp_path: Path) -> None:
    subprocess.run(command(tmp_path / "whole"), check=True, **settings)
    pieces = command(tmp_path / "killed")
    with subprocess.Popen(pieces, stdout=subprocess.PIPE, **settings) as process:
        assert any("call 3" in line for line in process.stdout or ())
        assert (tmp_path / "killed" / "2").exists()
        process.kill()
        assert process.wait() == -signal.SIGKILL
    subprocess.run(command(tmp_path / "killed"), check=True, **settings)
    require_same(saved(tmp_path / "whole"), saved(tmp_path / "killed"))


@pytest.mark.slow
def test_it_goes_on_on_another_number_of_devices(settings: Any, tmp_path: Path) -> None:
    whole = lines(settings, tmp_path / "4", 4)
    shutil.rmtree(tmp_path / "4" / "4")
    shutil.copytree(tmp_path / "4", tmp_path / "2")
    assert lines(settings, tmp_path / "4", 4) == whole[3:]
    [call] = lines(settings, tmp_path / "2", 2)
    # The environments and parameters are those that were saved; sums over slots round differently.
    assert float(call.split()[-1]) == pytest.approx(float(whole[3].split()[-1]), rel=0.2)


@pytest.mark.integration
def test_two_processes_agree(settings: Any, tmp_path: Path) -> None:
    pieces = command(tmp_path / "saved", "--processes=2", "--calls=1")
    done = subprocess.run(pieces, check=True, stdout=subprocess.PIPE, timeout=300, **settings)
    assert {"process 0: slots 0 to 3", "process 1: slots 4 to 7"} <= set(done.stdout.splitlines())
    means = re.findall(r"process (\d): call 1, mean return (\S+)", done.stdout)
    assert {number for number, _ in means} == {"0", "1"} and len({mean for _, mean in means}) == 1
    assert (tmp_path / "saved" / "1").is_dir()
