"""
Batches over several devices: what sharding costs, and how a step grows with their number.

The devices are simulated by the CPU backend, in a process of their own. They share its cores.
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.measure import Table, Work, compare
from benchmarks.rollout import in_python
from envrax import VecEnv, shard
from envrax_classic import CartPole

DEVICES, SLOTS, STEPS = (1, 2, 4, 8), 4096, 100
_COLLECTIVE = r"= .* (all-\w+|collective-\w+|reduce-scatter)(-start)?\("


@dataclass(frozen=True)
class Growth:
    """Weak scaling: `slots` slots on each device."""

    title: str
    table: Table
    slots: int
    cores: int

    def markdown(self) -> str:
        lines = [
            f"### {self.title}",
            "",
            f"The simulated devices share {self.cores} cores: K devices can at best take "
            f"max(1, K / {self.cores}) times as long as one.",
            "",
            "| devices | slots | µs per step | of what the cores can give | "
            "the same slots on one device, by `VecEnv` | sharded against that |",
            "|---|---|---|---|---|---|",
        ]
        first, times = _sharded(1), self.table.seconds
        for k in DEVICES:
            turns = zip(times[first], times[_sharded(k)], strict=True)
            given = Table("", {"ideal": [], "real": []}, 1)
            for one, many in turns:
                given.seconds["ideal"].append(one * max(1, k / self.cores))
                given.seconds["real"].append(many)
            pair = Table("", {_plain(k): times[_plain(k)], _sharded(k): times[_sharded(k)]}, 1)
            lines.append(
                f"| {k} | {k * self.slots:,} | {self.table.median(_sharded(k))} | "
                f"{1 / given.ratio('real'):.0%} | {self.table.median(_plain(k))} | "
                f"{pair.ratio(_sharded(k)):.2f} |"
            )
        return "\n".join(lines)


def one_device(sizes: tuple[int, ...] = (64, 4096, 65_536), repeats: int = 25) -> list[Table]:
    """`shard` over a mesh of one device, against the `VecEnv` itself: in a scan, in Python."""
    mesh, tables = jax.make_mesh((1,), ("slots",)), list[Table]()
    for n in sizes:
        steps = max(20, min(2000, 800_000 // n))
        vec_env = VecEnv(CartPole(), n)
        envs = {"`VecEnv`": vec_env, "`shard(VecEnv)`, one device": shard(vec_env, mesh)}
        scans = {name: _scan(env, steps) for name, env in envs.items()}
        tables.append(Table(f"CartPole, N = {n}, rollout", compare(scans, repeats), steps))
        steps = min(steps, 500)
        loops = {name: _loop(env, steps) for name, env in envs.items()}
        tables.append(Table(f"CartPole, N = {n}, Python loop", compare(loops, repeats), steps))
    return tables


def weak() -> list[Growth]:
    """1 to 8 simulated devices with 4,096 slots each, and as many slots on one device."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "benchmarks.scaling"]
    done = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True)
    title = f"CartPole, {SLOTS} slots per simulated device, rollout"
    table = Table(title, json.loads(done.stdout.splitlines()[-1]), STEPS)
    return [Growth(title, table, SLOTS, os.cpu_count() or 1)]


def both() -> list[Table | Growth]:
    """One device, then several."""
    return [*one_device(), *weak()]


def _weak(repeats: int = 25) -> dict[str, list[float]]:
    ways: dict[str, Work] = {}
    for k in DEVICES:
        vec_env = VecEnv(CartPole(), k * SLOTS)
        mesh = jax.make_mesh((k,), ("slots",), devices=jax.devices()[:k])
        ways[_sharded(k)] = _scan(shard(vec_env, mesh), STEPS)
        ways[_plain(k)] = _scan(vec_env, STEPS)
    return compare(ways, repeats)


def _sharded(k: int) -> str:
    return f"{k} devices"


def _plain(k: int) -> str:
    return f"one device, the slots of {k}"


def _scan(env: Any, steps: int) -> Work:
    """A rollout with given actions. It sums up per slot: nothing passes between devices."""
    shape = steps, env.num_envs
    actions = jax.random.randint(jax.random.key(1), shape, 0, 2, jnp.int32)
    if env.layout is not None:
        rows = jax.sharding.PartitionSpec(None, *env.layout.spec)
        actions = jax.device_put(actions, jax.sharding.NamedSharding(env.layout.mesh, rows))

    def step(carry: Any, actions: jax.Array) -> tuple[Any, None]:
        state, total = carry
        obs, state, reward, done, _ = env.step(state, actions)
        return (state, total + obs.sum(1) + reward + done.astype(jnp.float32)), None

    def rollout(state: Any, total: jax.Array, actions: jax.Array) -> Any:
        return jax.lax.scan(step, (state, total), actions)[0]

    obs, state = env.reset(jax.random.key(0))
    arguments = state, jnp.zeros_like(obs[:, 0]), actions
    run = jax.jit(rollout).lower(*arguments).compile()
    if found := re.findall(_COLLECTIVE, run.as_text() or ""):
        raise RuntimeError(f"expected a rollout without collectives; got {found}.")
    return lambda: jax.block_until_ready(run(*arguments))


def _loop(env: Any, steps: int) -> Work:
    _, start = env.reset(jax.random.key(0))
    actions = jax.device_put(env.action_space.sample(jax.random.key(1)), env.layout)
    return in_python(start, lambda state: env.step(state, actions)[1], steps)


if __name__ == "__main__":
    print(json.dumps(_weak()))
