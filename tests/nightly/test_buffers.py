# pyright: reportMissingImports=false
"""Transitions of RLlib and AgileRL against a `VecEnv` from the same key, bit for bit."""

from collections.abc import Iterator
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from agilerl.algorithms import PPO
from agilerl.rollouts.on_policy import collect_rollouts
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from trainers.replayed import ENV, N_SLOTS, replayed

from envrax import VecEnv
from envrax.interop import to_gymnasium_vec

N_STEPS = 80


def make_vec(num_envs: int) -> Any:
    return to_gymnasium_vec(VecEnv(ENV, num_envs), autoreset_mode="NextStep")


@pytest.fixture
def drawn() -> Iterator[str]:
    gymnasium.register("Drawn-v0", entry_point=lambda: None, vector_entry_point=make_vec)
    yield "Drawn-v0"
    del gymnasium.registry["Drawn-v0"]


def test_rllib(drawn: str) -> None:
    config = PPOConfig().environment(drawn).debugging(seed=0)
    config.env_runners(
        num_env_runners=0,
        num_envs_per_env_runner=N_SLOTS,
        gym_env_vectorize_mode="vector_entry_point",
    )
    runner = SingleAgentEnvRunner(config=config, worker_index=0)
    parts = runner.sample(num_timesteps=N_SLOTS * N_STEPS, random_actions=True)
    # No two observations are equal, so that an episode is known by its first one.
    by_first = {part.get_observations(0).tobytes(): part for part in parts}
    batch = VecEnv(ENV, N_SLOTS, final_obs=True)
    step = jax.jit(batch.step)
    obs, state = batch.reset(jax.random.split(jax.random.key(0))[1])
    running = [by_first[row.tobytes()] for row in np.asarray(obs)]
    at = [0] * N_SLOTS
    ends = {"terminated": 0, "truncated": 0}
    while all(t < len(part) for t, part in zip(at, running, strict=True)):
        actions = [part.get_actions(t) for t, part in zip(at, running, strict=True)]
        obs, state, rewards, dones, infos = jax.device_get(step(state, np.int32(actions)))
        for slot, part in enumerate(running):
            t = at[slot]
            np.testing.assert_array_equal(part.get_observations(t + 1), infos["final_obs"][slot])
            assert part.get_rewards(t) == rewards[slot]
            assert dones[slot] == (part.is_done and t + 1 == len(part))
            at[slot] = t + 1
            if dones[slot]:
                assert part.is_terminated == infos["terminated"][slot]
                assert part.is_truncated == infos["truncated"][slot]
                ends["terminated"] += part.is_terminated
                ends["truncated"] += part.is_truncated
                running[slot] = by_first.get(obs[slot].tobytes(), ())  # () if it has no step
                at[slot] = 0
    assert all(ends.values())


def test_agilerl() -> None:
    envs = to_gymnasium_vec(VecEnv(ENV, N_SLOTS))
    spaces = envs.single_observation_space, envs.single_action_space
    agent = PPO(*spaces, num_envs=N_SLOTS, learn_step=N_SLOTS * N_STEPS)
    envs.reset(seed=0)  # the first reset; `collect_rollouts` does the second
    collect_rollouts(agent, envs)
    held = agent.rollout_buffer.buffer
    wanted = replayed(held["actions"].numpy().reshape(N_STEPS, N_SLOTS), n_resets=2)
    assert wanted["terminated"].any() and wanted["truncated"].any()
    np.testing.assert_array_equal(held["observations"], wanted["obs"])
    np.testing.assert_array_equal(held["rewards"], wanted["reward"])
    np.testing.assert_array_equal(held["dones"], wanted["terminated"] | wanted["truncated"])
