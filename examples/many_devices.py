"""
PPO on many devices, of one machine or several, with checkpoints to continue from.

    python examples/many_devices.py                       all devices of this machine
    python examples/many_devices.py --checkpoint runs/long      run it again to continue
    python examples/many_devices.py --processes 2         two processes here, as on two hosts

The slots are sharded over a mesh, and every device has the parameters. The loss is a mean over all
slots, so the compiler adds the exchange of gradients. A checkpoint holds the whole training, with
environments in the middle of episodes: restored on as many devices, it ends with the same bits.

On a cluster, every host calls `run`. On a TPU pod or under Slurm, `jax.distributed.initialize()`
finds the others. The algorithm is the one of `ppo.py`, for CartPole.
"""

import argparse
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import envrax

N_STEPS, EPOCHS = 32, 24
LEARNING_RATE, GAMMA, GAE_LAMBDA, CLIP = 2e-3, 0.98, 0.95, 0.2


class Network(nn.Module):
    """The log-probabilities of the two actions, and the value."""

    @nn.compact
    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        for _ in range(2):
            x = nn.tanh(nn.Dense(64)(x))
        return jax.nn.log_softmax(nn.Dense(2)(x)), nn.Dense(1)(x)[..., 0]


network = Network()
optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(LEARNING_RATE))


def taken(log_probs: jax.Array, action: jax.Array) -> jax.Array:
    return jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]


def act(params: Any, obs: jax.Array, rng: jax.Array) -> Any:
    log_probs, value = network.apply(params, obs)
    action = jax.random.categorical(rng, log_probs)
    return action, params, (taken(log_probs, action), value)


def advantages(steps: envrax.Transition, value: jax.Array, next_value: jax.Array) -> jax.Array:
    """Generalised advantage estimation, bootstrapped unless the episode was terminated."""
    surprise = steps.reward + GAMMA * jnp.where(steps.terminated, 0.0, next_value) - value

    def back(later: jax.Array, step: Any) -> tuple[jax.Array, jax.Array]:
        surprise, done = step
        advantage = surprise + GAMMA * GAE_LAMBDA * jnp.where(done, 0.0, later)
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros_like(surprise[0]), (surprise, steps.done), reverse=True)[1]


def loss(params: Any, rows: Any) -> jax.Array:
    obs, action, log_prob, gain, target = rows
    log_probs, value = network.apply(params, obs)
    gain = (gain - jnp.mean(gain)) / (jnp.std(gain) + 1e-8)
    ratio = jnp.exp(taken(log_probs, action) - log_prob)
    kept = jnp.minimum(ratio * gain, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * gain)
    return 0.5 * jnp.mean(jnp.square(value - target)) - jnp.mean(kept)


class Training:
    """PPO over all devices of all processes. `init` and `train` are compiled."""

    def __init__(self, n_envs: int) -> None:
        self.mesh = jax.make_mesh((jax.device_count(),), ("slots",), (AxisType.Auto,))
        how: Any = {"wrappers": [envrax.RecordEpisodeStatistics], "pre_warm": False}
        self.env: Any = envrax.make_vec("classic/CartPole-v0", n_envs, mesh=self.mesh, **how)
        everywhere, spread = NamedSharding(self.mesh, P()), NamedSharding(self.mesh, P("slots"))
        layout = envrax.Rollout(spread, spread, everywhere, everywhere), everywhere
        self.init = jax.jit(self._init, out_shardings=layout)
        self.train = jax.jit(self._train, static_argnums=1, out_shardings=(layout, None))

    def _init(self, seed: Any) -> Any:
        rng, network_rng = jax.random.split(jax.random.key(seed))
        params = network.init(network_rng, jnp.zeros(4))
        return envrax.start(self.env, rng, params), optimiser.init(params)

    def _train(self, state: Any, n_updates: int) -> tuple[Any, jax.Array]:
        """Several updates; the mean return of the episodes that ended."""
        state, (totals, episodes) = jax.lax.scan(self._update, state, length=n_updates)
        return state, jnp.sum(totals) / jnp.sum(episodes)

    def _update(self, state: Any, _: None) -> tuple[Any, Any]:
        at, opt_state = state
        at, steps = envrax.rollout(self.env, act, at, N_STEPS)
        log_prob, value = steps.extras
        gain = advantages(steps, value, network.apply(at.policy_state, steps.next_obs)[1])
        rows = steps.obs, steps.action, log_prob, gain, gain + value

        def descend(carry: Any, _: None) -> tuple[Any, None]:
            params, opt_state = carry
            change, opt_state = optimiser.update(jax.grad(loss)(params, rows), opt_state)
            return (optax.apply_updates(params, change), opt_state), None

        learned, _ = jax.lax.scan(descend, (at.policy_state, opt_state), length=EPOCHS)
        ended = jnp.sum(steps.info["episode"]["r"]), jnp.sum(steps.done)
        return (at._replace(policy_state=learned[0]), learned[1]), ended


def run(given: argparse.Namespace) -> Any:
    """Runs in every process. All must make the same calls, since a program spans all of them."""
    training, done, checkpoints = Training(given.n_envs), 0, None
    state = training.init(given.seed)
    name, slots = f"process {jax.process_index()}", training.env.local_slots
    print(f"{name}: slots {slots[0]} to {slots[-1]}", flush=True)
    if given.checkpoint:
        # Saved before training continues: a killed run then loses only the call in progress.
        options = ocp.CheckpointManagerOptions(max_to_keep=3, enable_async_checkpointing=False)
        checkpoints = ocp.CheckpointManager(given.checkpoint.resolve(), options=options)
        done = checkpoints.latest_step() or 0
        if done:
            like = jax.tree.map(ocp.utils.to_shape_dtype_struct, state)
            state = checkpoints.restore(done, args=ocp.args.StandardRestore(like))
    for call in range(done + 1, given.calls + 1):
        state, mean = training.train(state, given.updates)
        if checkpoints:
            checkpoints.save(call, args=ocp.args.StandardSave(state))
        print(f"{name}: call {call}, mean return {float(mean):.2f}", flush=True)
    return state


def launch(n_processes: int) -> None:
    """Start processes on this machine, each with two devices. They communicate over loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, *sys.argv, "--address", address]
    commands = [[*command, "--process", str(i)] for i in range(n_processes)]
    started = [subprocess.Popen(x, env=environment) for x in commands]
    try:
        codes = [process.wait() for process in started]
    finally:
        for process in started:
            process.kill()
    sys.exit(max(map(abs, codes)))


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="PPO on many devices.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n-envs", type=int, default=64, help="slots of all devices together")
    parser.add_argument("--calls", type=int, default=20, help="of the compiled training")
    parser.add_argument("--updates", type=int, default=8, help="in a call")
    parser.add_argument("--checkpoint", type=Path, help="the directory; written after each call")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--address", help="of the first process")
    parser.add_argument("--process", type=int, help="the number of this one")
    return parser.parse_args(arguments)


def main() -> None:
    given = parse()
    if given.processes > 1 and given.process is None:
        launch(given.processes)
    if given.process is not None:
        # Must come before JAX starts a backend; `import envrax` starts none.
        jax.distributed.initialize(given.address, given.processes, given.process)
    run(given)


if __name__ == "__main__":
    main()
