"""
One policy for three environments, trained by PPO over a fleet.

    python examples/multi_task.py
    python examples/multi_task.py --seed 1 --total-steps 3000000

The environments have observations of other sizes and other numbers of choices. `MultiVecEnv` pads
the observations, says which choices there are, and cuts the actions apart again; to the network it
is one environment, whose observations say what the task is. The tasks also pay on other scales, and
the one that pays most would be the only one that is learned: `TASKS` has a factor for each.

Rollouts and updates of all tasks are one compiled program, that of `ppo.py`.
"""

from ppo import EPISODES, PPO, START, Options, run  # isort: skip  # the first: it takes the time

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from ppo_network import ActorCritic, Categorical
from ppo_options import add_flags

import envrax

TASKS = {"classic/CartPole-v0": 0.1, "classic/Acrobot-v0": 0.1, "classic/Ball-v0": 1.0}
"""What to train on, and what the network gets for a reward of 1. Evaluations are not scaled."""

PRESET: dict[str, Any] = dict(n_envs=96, total_steps=1_500_000, n_steps=64, minibatches=12)


class Seen(NamedTuple):
    """What the network sees of any task: a padded observation with the task, and the choices."""

    features: jax.Array
    choices: jax.Array


class Tasks:
    """A fleet as one environment: rows of `Seen`, and a whole number for an action."""

    def __init__(self, names: Sequence[str], n_slots: int) -> None:
        n_each, rest = divmod(n_slots, len(names))
        if rest:
            raise ValueError(f"expected a multiple of {len(names)} environments; got {n_slots}.")
        wrappers = [envrax.RecordEpisodeStatistics]
        self.fleet = envrax.make_multi_vec(
            {
                name: envrax.make_vec(
                    name, n_each, wrappers=wrappers, final_obs=True, pre_warm=False
                )
                for name in names
            }
        )
        longest = max(vec_env.config.max_steps for vec_env in self.fleet.vec_envs.values())
        self.config = envrax.EnvConfig(max_steps=longest)
        self.task = np.repeat(np.eye(len(names), dtype=np.float32), n_each, axis=0)
        self.choices = self.fleet.choice_mask()

    def reset(self, rng: jax.Array) -> tuple[Seen, Any]:
        obs, states = self.fleet.reset(rng)
        return self.see(obs), states

    def step(self, states: Any, action: jax.Array) -> tuple[Any, ...]:
        actions = self.fleet.unpad_actions(action)
        obs, states, rewards, dones, infos = self.fleet.step(states, actions)
        info = {key: self.rows(infos, key) for key in ("terminated", "episode")}
        info["final_obs"] = self.see({name: info["final_obs"] for name, info in infos.items()})
        return self.see(obs), states, rows(rewards), rows(dones), info

    def see(self, obs: Any) -> Seen:
        padded, _ = self.fleet.pad_observations(obs)
        return Seen(jnp.concatenate([padded, self.task], axis=1), jnp.asarray(self.choices))
