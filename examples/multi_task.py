"""
One policy for three environments, trained by PPO over a fleet.

    python examples/multi_task.py                              all three, in half a minute
    python examples/multi_task.py --seed 1 --total-steps 2000000

The environments differ in what there is to see and in how many choices there are. `MultiVecEnv`
pads the observations, masks the choices that a task does not have, and cuts the actions apart
again; the network is told the task beside each observation. Rewards are multiplied by the factors
in `TASKS`, so that the errors of a task with large returns do not drown those of the others.

The algorithm is that of `ppo.py`: rollouts and updates of all tasks are one compiled program.
"""
# ruff: noqa: E402

import time

START = time.perf_counter()  # before the imports, which are part of the wait

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from ppo import EPISODES, PPO, run
from ppo_network import ActorCritic, Categorical
from ppo_options import Options, add_flags

import envrax
import envrax_classic  # noqa: F401  # registers the environments

TASKS = {"classic/CartPole-v0": 0.1, "classic/Acrobot-v0": 0.1, "classic/Ball-v0": 1.0}
PRESET: dict[str, Any] = dict(n_envs=96, total_steps=750_000, minibatches=12)


class Seen(NamedTuple):
    """What the network is given, whatever the task."""

    features: jax.Array  # the padded observation, and a 1 in the place of the task
    choices: jax.Array  # True for those that the task has


class Tasks:
    """A fleet as one environment, for `PPO`: an equal share of the slots for each task."""

    def __init__(self, names: Iterable[str], n_slots: int) -> None:
        self.names = list(names)
        n_each, rest = divmod(n_slots, len(self.names))
        if rest:
            raise ValueError(
                f"expected n_envs to be a multiple of the {len(self.names)} tasks; got {n_slots}."
            )
        wrappers = [envrax.RecordEpisodeStatistics]
        members = {
            name: envrax.make_vec(name, n_each, wrappers=wrappers, final_obs=True, pre_warm=False)
            for name in self.names
        }
        self.fleet = envrax.make_multi_vec(members)
        self.config = envrax.EnvConfig(max_steps=max(m.config.max_steps for m in members.values()))
        self.choices = self.fleet.choice_mask()
        self.one_hot = np.repeat(np.eye(len(members), dtype=np.float32), n_each, axis=0)

    def reset(self, rng: jax.Array) -> tuple[Seen, Any]:
        obs, states = self.fleet.reset(rng)
        return self.see(obs), states

    def step(self, states: Any, actions: jax.Array) -> tuple[Any, ...]:
        actions = self.fleet.unpad_actions(actions)
        obs, states, rewards, dones, infos = self.fleet.step(states, actions)

        def of_infos(key: str) -> dict[str, Any]:
            return {name: infos[name][key] for name in self.names}

        info = {key: self.rows(of_infos(key)) for key in ("terminated", "episode")}
        info["final_obs"] = self.see(of_infos("final_obs"))
        return self.see(obs), states, self.rows(rewards), self.rows(dones), info

    def see(self, obs: Mapping[str, Any]) -> Seen:
        padded, _ = self.fleet.pad_observations(obs)
        return Seen(jnp.concatenate([padded, self.one_hot], axis=1), jnp.asarray(self.choices))

    def rows(self, values: Mapping[str, Any]) -> Any:
        """One array, or one tree, of what every member returned."""
        return jax.tree.map(lambda *x: jnp.concatenate(x), *(values[name] for name in self.names))


class MaskedActorCritic(nn.Module):
    """An `ActorCritic` that never chooses what the task does not have."""

    n_choices: int
    hidden: int

    @nn.compact
    def __call__(self, seen: Seen) -> tuple[Categorical, jax.Array]:
        choices = envrax.Discrete(self.n_choices)
        policy, value = ActorCritic(choices, self.hidden)(seen.features)
        # Not -inf: entropies and gradients would be nan.
        return Categorical(jnp.where(seen.choices, policy.logits, -1e9)), value


class MultiTaskPPO(PPO):
    """PPO on `Tasks`, given as a dict from the name of each to the factor of its rewards."""

    env: Tasks

    def __init__(self, options: Options, tasks: Mapping[str, float] = TASKS) -> None:
        self.names, self.scales = list(tasks), list(tasks.values())
        self.tasks = tuple(name.split("/")[-1].split("-v")[0] for name in tasks)
        super().__init__(options)
        self.reward_scale = options.reward_scale * self.env.one_hot @ np.float32(self.scales)

    def make_env(self, n_slots: int) -> Tasks:
        return Tasks(self.names, n_slots)

    def make_network(self) -> MaskedActorCritic:
        return MaskedActorCritic(self.env.choices.shape[1], self.options.hidden)


def trainer(arguments: Sequence[str] | None = None) -> MultiTaskPPO:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(
        description=f"Train one policy on {', '.join(TASKS)}.", argument_default=argparse.SUPPRESS
    )
    add_flags(parser, PRESET)
    try:
        return MultiTaskPPO(Options(**{**PRESET, **vars(parser.parse_args(arguments))}))
    except ValueError as error:
        parser.error(str(error))


def main(arguments: Sequence[str] | None = None) -> None:
    ppo = trainer(arguments)
    print(f"PPO on {', '.join(ppo.tasks)}, seed {ppo.options.seed}: compiling")
    result = run(ppo)
    scores = (x.reshape(len(ppo.tasks), -1).mean(axis=1) for x in (result.before, result.after))
    print(f"mean returns of the first {EPISODES} episodes started")
    print(f"{'env':<12}| {'before':>7} | {'after':>7}\n{'-' * 12}|{'-' * 9}|{'-' * 9}")
    for task, before, after in zip(ppo.tasks, *scores, strict=True):
        print(f"{task:<12}| {before:7.1f} | {after:7.1f}")
    print(f"{time.perf_counter() - START:.1f} s of wall time, imports and compilation included")


if __name__ == "__main__":
    main()
