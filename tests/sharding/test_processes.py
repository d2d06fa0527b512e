"""Two real processes over loopback hold one batch, and compute what one process computes."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from fakes import CoinConfig, CoinEnv
from helpers import plain

from envrax import VecEnv, evaluate

# What every process runs: 4 of 8 devices each, 16 slots.
WORK = """
import os, sys
os.environ["XLA_FLAGS"] += " --xla_force_host_platform_device_count=4"
import jax
import envrax
from envrax import VecEnv, shard
from fakes import CoinConfig, CoinEnv
address, process, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
from envrax.wrappers import vector
vec_env = VecEnv(CoinEnv(CoinConfig(end_rate=0.4)), 16)
vector.NormalizeObservation(envrax.make_vec("classic/CartPole-v0", 8, pre_warm=False))
jax.distributed.initialize(address, 2, process)  # nothing above has started a backend

import numpy as np
from helpers import plain
mesh = jax.make_mesh((8,), ("slots",))
env = shard(vec_env, mesh)
env.compile(None)
results = {"slots": env.local_slots}
for name, batch in ("plain", env), ("normal", vector.NormalizeObservation(env)):
    obs, state = batch.reset(jax.random.key(0))
    for i in range(4):
        mine = np.full((8, 2), i, np.float32)
        obs, state, rewards, dones, infos = batch.step(state, env.to_global(mine))
    for path, x in jax.tree_util.tree_leaves_with_path(env.to_local((obs, rewards, dones))):
        results[name + jax.tree_util.keystr(path)] = plain(x)
    inner = state if name == "plain" else state.env_state
    results[name + ".rng"] = plain(env.to_local(inner.rng))
    for slot in env.local_slots[:2]:
        assert int(env.slot_state(inner, slot).step) >= 0
results["mean"] = plain(state.statistics.mean)
found = envrax.evaluate(env, None, jax.random.key(1), 20)
results["returns"] = np.asarray(found.returns)
for wrong in (
    lambda: env.step(inner, np.zeros((16, 2), np.float32)),
    lambda: env.slot_state(inner, (int(env.local_slots[0]) + 8) % 16),
    lambda: vector.RecordVideo(env),
):
    try:
        wrong()
    except ValueError as error:
        hints = "to_global", "local_slots", "frozen=True"
        assert any(hint in str(error) for hint in hints), error
    else:
        raise AssertionError
np.savez(out, **results)
"""


def run_all(commands: list[list[str]], env: dict[str, str]) -> None:
    """Run processes side by side; all end before the test does."""
    options: Any = dict(env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    started = [subprocess.Popen(command, **options) for command in commands]
    try:
        said = [process.communicate(timeout=240)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    for process, text in zip(started, said, strict=True):
        assert process.returncode == 0, text


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.integration
def test_two_processes_hold_the_slots_of_one(tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, sys.path))
    env = {**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    address, outs = free_address(), [tmp_path / f"{i}.npz" for i in range(2)]
    run_all([[sys.executable, "-c", WORK, address, str(i), str(outs[i])] for i in range(2)], env)
    results = [dict(np.load(out)) for out in outs]
    np.testing.assert_array_equal(np.concatenate([t["slots"] for t in results]), np.arange(16))

    vec_env = VecEnv(CoinEnv(CoinConfig(end_rate=0.4)), 16)
    _, state = vec_env.reset(jax.random.key(0))
    for i in range(3):
        _, state, *_ = vec_env.step(state, np.full((16, 2), i, np.float32))
    obs, state, rewards, dones, _ = vec_env.step(state, np.full((16, 2), 3, np.float32))
    expected = {"plain[0]": obs, "plain[1]": rewards, "plain[2]": dones, "plain.rng": state.rng}
    for name, x in expected.items():
        ours = np.concatenate([t[name] for t in results])
        np.testing.assert_array_equal(ours, plain(x), err_msg=name)
    np.testing.assert_array_equal(results[0]["normal.rng"], results[0]["plain.rng"])
    np.testing.assert_array_equal(results[0]["mean"], results[1]["mean"])
    returns = np.asarray(evaluate(vec_env, None, jax.random.key(1), 20).returns)
    for t in results:
        np.testing.assert_array_equal(t["returns"], returns)
