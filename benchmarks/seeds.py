"""Train several seeds at once: `jax.vmap` of the example PPO."""

from typing import Any

import jax
import jax.numpy as jnp
from ppo import N_CALLS, PPO, PRESETS, Options

import envrax
import envrax_classic  # noqa: F401  # registers classic/...
from benchmarks.measure import Table, Work, compare
from envrax.autoreset import AutoReset, Select


def train(num_seeds: int = 8, total_steps: int = 100_000) -> list[Table]:
    """Under `vmap`, one loop resets the slots of all seeds whose episode ended."""
    name = "classic/CartPole-v0"
    options = Options(name, **{**PRESETS[name], "total_steps": total_steps})
    ways = {
        f"{num_seeds} seeds under `jax.vmap`": _at_once(Training(options), num_seeds),
        "the same, every slot reset on every step": _at_once(
            Training(options, Select()), num_seeds
        ),
        f"{num_seeds} seeds one after the other": _in_turn(Training(options), num_seeds),
    }
    steps = N_CALLS * PPO(options).n_updates * options.n_steps
    title = f"PPO on CartPole, {num_seeds} trainings of {options.n_envs} slots"
    return [Table(title, compare(ways), steps)]


class Training(PPO):
    def __init__(self, options: Options, autoreset: AutoReset | None = None) -> None:
        super().__init__(options)
        self.vec_env = envrax.VecEnv(self.env, options.n_envs, autoreset=autoreset)

    def whole(self, seed: Any) -> Any:
        """The parameters after training."""
        n = N_CALLS * self.n_updates
        (at, _), _ = jax.lax.scan(self.update, self.init(seed), length=n)
        return at.policy_state


def _at_once(training: Training, num_seeds: int) -> Work:
    run = jax.jit(jax.vmap(training.whole))
    return lambda: jax.block_until_ready(run(jnp.arange(num_seeds)))


def _in_turn(training: Training, num_seeds: int) -> Work:
    run = jax.jit(training.whole)
    return lambda: [jax.block_until_ready(run(seed)) for seed in range(num_seeds)]
