"""Two CPU devices on one machine, against one device that has all cores."""

import os
import re
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.measure import Table, Work, compare
from envrax import VecEnv, shard
from envrax.classic import CartPole

_COLLECTIVE = r"= .* (all-\w+|collective-\w+|reduce-scatter)(-start)?\("


def cores() -> list[Table]:
    """Two CPU devices against one, which has all cores: where `shard` pays on one machine."""
    return [
        Table(f"CartPole, N = {n}, rollout", _of_processes(n, steps), steps)
        for n, steps in ((64, 5000), (1024, 2000), (4096, 500), (65_536, 50))
    ]


def _of_processes(n: int, steps: int) -> dict[str, list[float]]:
    """A process for each number of devices, which take turns: XLA divides cores when it starts."""
    processes = {"one device": _process(1, n, steps), "two devices": _process(2, n, steps)}

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


def _process(n_devices: int, n: int, steps: int) -> Any:
    """`_serve` in a process of its own, with simulated devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={n_devices}"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "benchmarks.cores", *map(str, (n_devices, n, steps))]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)


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


if __name__ == "__main__":
    _serve(*map(int, sys.argv[1:]))
