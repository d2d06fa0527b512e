"""
A batch over the devices of several processes, as on several hosts.

    python examples/many_hosts.py                  # two processes on this machine
    python examples/many_hosts.py --processes 4

On a cluster every host runs the body of `work` with its own address and number; on a TPU pod or
under Slurm `jax.distributed.initialize()` finds them by itself.
"""

import argparse
import os
import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np

import envrax

N_SLOTS = 16


def work(address: str, n_processes: int, process: int) -> None:
    """What every process runs, line by line the same: those calls meet that span all of them."""
    # Before anything else of JAX: `import envrax` has started no backend.
    jax.distributed.initialize(address, n_processes, process)
    mesh = jax.make_mesh((jax.device_count(),), ("slots",))
    env = envrax.make_vec("classic/CartPole-v0", N_SLOTS, mesh=mesh, cache_dir=None)

    # On the host, every process reads and feeds the slots that it holds.
    obs, state = env.reset(jax.random.key(0))
    total = 0.0
    for _ in range(100):
        mine = env.to_local(obs)
        actions = (mine[:, 2] > 0).astype(np.int32)  # push to where the pole leans
        obs, state, rewards, dones, infos = env.step(state, env.to_global(actions))
        total += float(np.sum(env.to_local(rewards)))
    print(f"process {process}: slots {env.local_slots.tolist()}, reward {total:.0f}", flush=True)

    # On the devices, a whole rollout is one program over all of them.
    def policy(policy_state, obs, rng):
        return (obs[:, 2] > 0).astype(jnp.int32), policy_state, ()

    _, steps = envrax.rollout(env, policy, envrax.start(env, jax.random.key(0)), 100)
    mean = jax.jit(jnp.mean)(steps.done)  # over the slots of all processes
    print(f"process {process}: episodes ended per step and slot {float(mean):.4f}", flush=True)


def launch(n_processes: int) -> None:
    """Start the processes on this machine, which talk over the loopback interface."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, __file__, "--address", address, "--processes", str(n_processes)]
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    started = [
        subprocess.Popen([*command, "--process", str(i)], env=environment)
        for i in range(n_processes)
    ]
    try:
        codes = [process.wait() for process in started]
    finally:
        for process in started:
            process.kill()
    sys.exit(max(codes))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A batch over several processes.")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--address", help="of the first process")
    parser.add_argument("--process", type=int, help="the number of this one")
    given = parser.parse_args()
    if given.process is None:
        launch(given.processes)
    else:
        work(given.address, given.processes, given.process)
