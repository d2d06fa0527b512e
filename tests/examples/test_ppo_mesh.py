"""The PPO example with `--mesh`: on simulated devices, and from eight of them to fewer."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FLAGS = ["--total-steps=2560", "--n-envs=16", "--n-steps=8", "--minibatches=2", "--interval=2"]
# A process goes on from what it finds in a directory, and tells what that is and what it becomes.
GOES_ON = f"""
import json, sys
from pathlib import Path
import jax, numpy as np
import envrax, ppo
from ppo_checkpoint import Checkpoints, digest, place
from ppo_options import parse

folder, options = Path(sys.stdin.read()), parse({FLAGS})[0]
trainer, curve = ppo.trainer(options, mesh=True), np.zeros((10, 2, 2, 1), np.float32)
start = jax.jit(trainer.init)(0)
(state, _), calls = Checkpoints(folder, options).restore((start, curve))
again = jax.jit(lambda at: envrax.rollout(trainer.env, None, at, 20))(state.at)
told = dict(calls=calls, params=digest(state.params), at=digest(state.at), again=digest(again))
end = ppo.run(trainer, Checkpoints(folder, options))
told |= dict(end=digest(end.params), curve=digest(end.curves), place=place(end.params))
print(json.dumps(told))
"""


@pytest.fixture
def goes_on(run_python: Callable[..., str]) -> Callable[[Path, int], dict[str, Any]]:
    """What a process on so many devices tells of a directory."""

    def go_on(folder: Path, n_devices: int) -> dict[str, Any]:
        flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={n_devices}"
        code = GOES_ON.replace("sys.stdin.read()", repr(str(folder)))
        return json.loads(run_python(code, XLA_FLAGS=flags).splitlines()[-1])

    return go_on


@pytest.mark.slow
def test_a_training_goes_on_on_another_number_of_devices(
    goes_on: Callable[[Path, int], dict[str, Any]], tmp_path: Path
) -> None:
    whole = goes_on(tmp_path / "8", 8)
    assert whole["calls"] == 0 and whole["place"].startswith("a mesh of 8 cpu")
    (tmp_path / "8" / "20").rename(tmp_path / "last")
    (tmp_path / "8" / "18").rename(tmp_path / "last but one")
    found = {}
    for n in (2, 1):
        folder = shutil.copytree(tmp_path / "8", tmp_path / str(n))
        found[n] = goes_on(folder, n)
        assert found[n]["place"].startswith(f"a mesh of {n} cpu")
        assert (folder / "20").is_dir() and found[n]["end"] != found[n]["params"]
    found[8] = goes_on(tmp_path / "8", 8)
    for told in found.values():
        assert told["calls"] == 8
        # Parameters and environments are as saved, and the latter go on the same.
        assert [told[x] for x in ("params", "at", "again")] == [
            found[8][x] for x in ("params", "at", "again")
        ]
    assert (found[8]["end"], found[8]["curve"]) == (whole["end"], whole["curve"])


@pytest.mark.slow
def test_what_the_devices_cannot_divide_is_refused(run_python: Callable[..., str]) -> None:
    told = run_python(
        """
        import ppo
        for flags in [], ["gymnasium:CartPole-v1"]:
            try:
                ppo.main(["--mesh", *flags])
            except SystemExit as error:
                print(error)
        """,
        XLA_FLAGS="--xla_force_host_platform_device_count=3",
    )
    slots, host = [line for line in told.splitlines() if "error: --mesh: " in line]
    assert "expected n_envs to be a multiple of 3, the number of devices" in slots
    assert "got n_envs = 64, n_steps = 32, minibatches = 8." in slots
    assert "expected an environment of one agent; got gymnasium:CartPole-v1." in host
