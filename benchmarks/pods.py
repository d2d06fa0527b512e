"""
Collectives of a batch on many accelerators, without any: 2 hosts of 4 H100, 256 TPU v5e.

    python -m benchmarks pods

65,536 slots of CartPole on each device, by `shard`. Needs the compilers that
`benchmarks.deviceless` names.
"""

import os
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from benchmarks import deviceless, files
from benchmarks.measure import Values
from envrax import VecEnv, rollout, shard, start
from envrax.classic import CartPole

PODS = {"2 hosts of 4 H100": ("cuda", "1x2x4"), "256 TPU v5e": ("tpu", "v5e:16x16")}
SLOTS = 65_536  # on a device
STEPS = 32


def main() -> None:
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # libtpu looks for a machine in the cloud
    tables = [Values(name, on_pod(*pod)) for name, pod in PODS.items()]
    for table in tables:
        print(table.markdown())
    files.write("pods", {table.title: table.data() for table in tables})


def on_pod(platform: str, topology: str) -> dict[str, dict[str, float]]:
    """Collectives of each program, by its name."""
    devices = deviceless.devices(platform, topology)
    mesh = Mesh(devices, ("slots",))
    env = shard(VecEnv(CartPole(), SLOTS * devices.size), mesh)
    key = jax.eval_shape(lambda: jax.random.key(0))
    key = jax.ShapeDtypeStruct((), key.dtype, sharding=NamedSharding(mesh, PartitionSpec()))

    def step(rng: jax.Array) -> Any:
        _, state = env.reset(rng)
        return env.step(state, env.action_space.sample(rng))

    def played(rng: jax.Array) -> Any:
        return rollout(env, None, start(env, rng), STEPS)[1]

    programs: dict[str, Callable[[jax.Array], Any]] = {
        "`reset`": env.reset,
        "`reset` and a `step`": step,
        "`rollout`": played,
        "`rollout`, and the mean of its rewards": lambda rng: played(rng).reward.mean(),
    }
    rows: dict[str, dict[str, float]] = {}
    for name, program in programs.items():
        text = deviceless.lowered(platform, program, key).compile().as_text()
        rows[name] = {"collectives": len(deviceless.COLLECTIVE.findall(text))}
        print(name, rows[name], flush=True)
    return rows
