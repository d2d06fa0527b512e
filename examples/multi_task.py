"""
One policy for several environments, trained by PPO over a fleet.

    python examples/multi_task.py                              three, in half a minute
    python examples/multi_task.py --seed 1 --total-steps 2000000
    python examples/multi_task.py gymnax/CartPole-v1 navix/Navix-Empty-5x5-v0 jumanji/Snake-v1 \
        pgx/minatar-breakout --entropy-weight 0.03 --no-greedy --total-steps 1300000

The environments have different observations and numbers of actions. `MultiVecEnv` pads the
observations, and splits the actions; the choices that a task does not have are masked, and so are
those that are not legal. Each observation includes a one-hot code of its task. Rewards are
multiplied by the factors in `FACTORS`, so that a task with large returns does not dominate the
loss.

The algorithm is that of `ppo.py`: rollouts and updates of all tasks are one compiled program.
"""
# ruff: noqa: E402

import time

START = time.perf_counter()  # before the imports, to include them

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ppo import run
from ppo_algorithm import EPISODES, PPO
from ppo_options import Options, add_flags
from ppo_spaces import Features

import envrax

TASKS = "classic/CartPole-v0", "classic/Acrobot-v0", "classic/Ball-v0"
FACTORS = {
    "classic/CartPole-v0": 0.1,
    "classic/Acrobot-v0": 0.1,
    "gymnax/CartPole-v1": 0.1,
    "gymnax/Acrobot-v1": 0.1,
    "jumanji/Snake-v1": 5.0,
}
PRESET: dict[str, Any] = dict(n_envs=96, total_steps=750_000, minibatches=12)


class Tasks(envrax.BatchedEnv[Any, Any]):
    """A fleet as one batch for `PPO`, with as many slots for each task."""

    def __init__(self, envs: Mapping[str, Any], n_slots: int) -> None:
        self.names = list(envs)
        n_each, rest = divmod(n_slots, len(envs))
        if rest:
            raise ValueError(
                f"expected n_envs to be a multiple of the {len(envs)} tasks; got {n_slots}."
            )
        self.fleet = envrax.make_multi_vec(
            {name: envrax.VecEnv(env, n_each, final_obs=True) for name, env in envs.items()}
        )
        self.choices = self.fleet.choice_mask()
        self.one_hot = np.repeat(np.eye(len(envs), dtype=np.float32), n_each, axis=0)

    @property
    def n_slots(self) -> int:
        return self.fleet.total_envs

    @property
    def single_observation_space(self) -> envrax.Box:
        seen, _ = jax.eval_shape(self.reset, jax.random.key(0))
        return envrax.Box(-np.inf, np.inf, seen.shape[1:])

    @property
    def single_action_space(self) -> envrax.Discrete:
        return envrax.Discrete(self.choices.shape[1])

    def reset(self, rng: jax.Array) -> tuple[jax.Array, Any]:
        obs, states = self.fleet.reset(rng)
        return self.see(obs), states

    def step(self, state: Any, actions: jax.Array) -> tuple[Any, ...]:
        actions = self.fleet.unpad_actions(actions)
        obs, state, rewards, dones, infos = self.fleet.step(state, actions)
        info = {
            "terminated": self.rows({n: infos[n].get("terminated", dones[n]) for n in self.names}),
            "episode": self.rows({n: infos[n]["episode"] for n in self.names}),
            "final_obs": self.see({n: infos[n]["final_obs"] for n in self.names}),
        }
        return self.see(obs), state, self.rows(rewards), self.rows(dones), info

    def see(self, obs: Mapping[str, Any]) -> jax.Array:
        """The input of the network: the padded observation and the one-hot task."""
        padded, _ = self.fleet.pad_observations(obs)
        return jnp.concatenate([padded, self.one_hot], axis=1)

    def action_mask(self, state: Any) -> jax.Array:
        """The choices that a task has, without those that are illegal now."""
        masks, blocks = self.fleet.action_masks(state), np.split(self.choices, len(self.names))
        for i, name in enumerate(self.names):
            if masks[name] is not None:
                legal = masks[name]
                surplus = self.choices.shape[1] - legal.shape[1]
                blocks[i] = jnp.pad(legal, ((0, 0), (0, surplus)))
        return jnp.concatenate(blocks)

    def rows(self, values: Mapping[str, Any]) -> Any:
        """Concatenate what the members returned."""
        return jax.tree.map(lambda *x: jnp.concatenate(x), *(values[name] for name in self.names))


class MultiTaskPPO(PPO):
    """
    PPO on `Tasks`.

    Parameters
    ----------
    options : Options
        The hyper-parameters; `env` is not used.
    tasks : mapping
        From the name of each environment to the factor of its rewards.
    """

    env: Tasks

    def __init__(self, options: Options, tasks: Mapping[str, float]) -> None:
        self.tasks = short_names(tasks)
        wrappers = [envrax.RecordEpisodeStatistics, Features]
        self.envs = {
            name: envrax.make(name, wrappers=wrappers, jit_compile=False) for name in tasks
        }
        super().__init__(options)
        factors = np.array(list(tasks.values()), np.float32)
        self.reward_scale = options.reward_scale * self.env.one_hot @ factors

    def make_env(self, n_slots: int) -> Tasks:
        return Tasks(self.envs, n_slots)


def short_names(names: Iterable[str]) -> tuple[str, ...]:
    """Without prefix and version, unless two are the same then."""
    short = tuple(name.split("/")[-1].split("-v")[0] for name in names)
    return short if len(set(short)) == len(short) else tuple(names)


def trainer(arguments: Sequence[str] | None = None) -> MultiTaskPPO:
    """Build the trainer from the command line."""
    parser = argparse.ArgumentParser(
        usage="multi_task.py [env ...] [options]",
        description="Train one policy on several environments.",
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("envs", nargs="*", help=f"their names ({' '.join(TASKS)})")
    add_flags(parser, PRESET)
    given = vars(parser.parse_args(arguments))
    tasks = {name: FACTORS.get(name, 1.0) for name in given.pop("envs", None) or TASKS}
    try:
        return MultiTaskPPO(Options(**{**PRESET, **given}), tasks)
    except (ImportError, TypeError, ValueError) as error:
        parser.error(str(error))


def main(arguments: Sequence[str] | None = None) -> None:
    ppo = trainer(arguments)
    print(f"PPO on {', '.join(ppo.tasks)}, seed {ppo.options.seed}: compiling")
    result = run(ppo)
    scores = (x.reshape(len(ppo.tasks), -1).mean(axis=1) for x in (result.before, result.after))
    print(f"mean returns of the first {EPISODES} episodes started")
    width = max(12, *map(len, ppo.tasks))
    print(f"{'env':<{width}}| {'before':>7} | {'after':>7}\n{'-' * width}|{'-' * 9}|{'-' * 9}")
    for task, before, after in zip(ppo.tasks, *scores, strict=True):
        print(f"{task:<{width}}| {before:7.2f} | {after:7.2f}")
    print(f"{time.perf_counter() - START:.1f} s of wall time, imports and compilation included")


if __name__ == "__main__":
    main()
