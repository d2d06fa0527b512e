"""
Batches over several devices: what sharding costs, and how a step grows with their number.

The devices are simulated by the CPU backend, in a process of their own. They share its cores.
"""

import json
import os
import re
import statistics
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.measure import Table, Values, Work, compare
from benchmarks.rollout import in_python
from envrax import VecEnv, shard
from envrax_classic import CartPole

DEVICES, SLOTS, STEPS = (1, 2, 4, 8), 4096, 100
_COLLECTIVE = r"= .* (all-\w+|collective-\w+|reduce-scatter)(-start)?\("


def one_device(sizes: tuple[int, ...] = (64, 4096, 65_536)) -> list[Table]:
    """`shard` over a mesh of one device, against the `VecEnv` itself: in a scan, in Python."""
    mesh, tables = jax.make_mesh((1,), ("slots",)), list[Table]()
    for n in sizes:
        steps = max(20, min(2000, 800_000 // n))
        vec_env = VecEnv(CartPole(), n)
        envs = {"`VecEnv`": vec_env, "`shard(VecEnv)`, one device": shard(vec_env, mesh)}
        scans = {name: _scan(env, steps) for name, env in envs.items()}
        tables.append(Table(f"CartPole, N = {n}, rollout", compare(scans), steps))
        steps = min(steps, 500)
        loops = {name: _loop(env, steps) for name, env in envs.items()}
        tables.append(Table(f"CartPole, N = {n}, Python loop", compare(loops), steps))
    return tables


def weak() -> list[Values]:
    """1 to 8 simulated devices with 4,096 slots each, and as many slots on one device."""
    times = json.loads(_process(max(DEVICES)).communicate()[0].splitlines()[-1])
    scaled = Table(f"CartPole, {SLOTS} slots per simulated device, rollout", times, STEPS)
    rows: dict[str, dict[str, float]] = {}
    for k in DEVICES:
        one, many, plain = (times[name] for name in (_sharded(1), _sharded(k), _plain(k)))
        ideal = [x * max(1, k / (os.cpu_count() or 1)) for x in one]
        rows[_sharded(k)] = {
            "µs per step": scaled.scaled(statistics.median(many)),
            "% of what the cores can give": 100 / Table("", {"": ideal, "k": many}, 1).ratio("k"),
            "the same slots on one device": scaled.scaled(statistics.median(plain)),
            "sharded against that": Table("", {"": plain, "k": many}, 1).ratio("k"),
        }
    return [Values(scaled.title, rows)]


def cores() -> list[Table]:
    """Two CPU devices against one, which has all cores: where `shard` pays on one machine."""
    return [
        Table(f"CartPole, N = {n}, rollout", _of_processes(n, steps), steps)
        for n, steps in ((64, 5000), (1024, 2000), (4096, 500), (65_536, 50))
    ]


def _of_processes(n: int, steps: int) -> dict[str, list[float]]:
    """A process for each number of devices, which take turns: XLA divides cores when it starts."""
    served = {"one device": 1, "two devices": 2}
    processes = {
        name: _process(k, "serve", f"{k}", f"{n}", f"{steps}") for name, k in served.items()
    }

    def ask(process: Any) -> Work:
        def work() -> str:
            process.stdin.write("go\n")
            process.stdin.flush()
            return process.stdout.readline()

        return work

    try:
        return compare({name: ask(process) for name, process in processes.items()})
    finally:
        for process in processes.values():
            process.communicate()  # closes its input, at which it ends


def _serve(k: int, n: int, steps: int) -> None:
    """Run a rollout over `k` devices for every line of the input."""
    env: Any = VecEnv(CartPole(), n)
    work = _scan(env if k == 1 else shard(env, jax.make_mesh((k,), ("slots",))), steps)
    for _ in sys.stdin:
        work()
        print("done", flush=True)


def both() -> list[Table | Values]:
    """One device, then several."""
    return [*one_device(), *weak()]


def _process(n_devices: int, *arguments: str) -> Any:
    """This module in a process of its own, with simulated devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={n_devices}"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "benchmarks.scaling", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)


def _weak() -> dict[str, list[float]]:
    ways: dict[str, Work] = {}
    for k in DEVICES:
        vec_env = VecEnv(CartPole(), k * SLOTS)
        mesh = jax.make_mesh((k,), ("slots",), devices=jax.devices()[:k])
        ways[_sharded(k)] = _scan(shard(vec_env, mesh), STEPS)
        ways[_plain(k)] = _scan(vec_env, STEPS)
    return compare(ways)


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
    if sys.argv[1:]:
        _serve(*map(int, sys.argv[2:]))
    else:
        print(json.dumps(_weak()))
