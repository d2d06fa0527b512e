#!/usr/bin/env bash
# What: three stacked frames of one running episode, in the second batch of five steps: as the policy sees them, and
#   as the learner does.
# Version: ray 2.60.0 with torch 2.13.0 and gymnasium 1.2.2, Python 3.11.
# Expected: FrameStackingEnvToModule and FrameStackingLearner give the same stack for the same step.
# Seen: where a batch begins in the middle of an episode, the learner has one frame of before and puts zeros for
#   the others: `episode_lookback_horizon` is 1. The ratio of probabilities of PPO compares two observations. No
#   message; `.env_runners(episode_lookback_horizon=3)` repairs it. With four frames two steps of every fragment
#   are wrong.
# Output:
#   the policy saw: [[4, 5, 6], [5, 6, 7], [6, 7, 8], [7, 8, 9], [8, 9, 10]]
#   the learner gets: [[0, 5, 6], [5, 6, 7], [6, 7, 8], [7, 8, 9], [8, 9, 10]]
#   with a lookback of 3: [[4, 5, 6], [5, 6, 7], [6, 7, 8], [7, 8, 9], [8, 9, 10]]
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet "ray[rllib]==2.60.0" torch==2.13.0 gymnasium==1.2.2
venv/bin/python - 2>warnings <<'PY'
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.env_to_module.frame_stacking import FrameStackingEnvToModule
from ray.rllib.connectors.learner.frame_stacking import FrameStackingLearner
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner


class Counter(gymnasium.Env):
    """An image that is the number of the step, from 1 on; it never ends."""

    observation_space, action_space = Box(0, 99, (10, 10, 1), np.float32), Discrete(2)

    def __init__(self, config=None):
        self.t = 0

    def seen(self):
        self.t += 1
        return np.full((10, 10, 1), self.t, np.float32)

    def reset(self, *, seed=None, options=None):
        return self.seen(), {}

    def step(self, action):
        return self.seen(), 1.0, False, False, {}


def corner(images):
    return np.asarray(images).reshape(-1, 10, 10, 3)[:, 0, 0].astype(int).tolist()


def stacks(**options):
    """Those of the policy and those of the learner, of the second batch."""
    saw = []

    class Seen(ConnectorV2):
        def __call__(self, *, rl_module, batch, **kwargs):
            saw.extend(corner(next(iter(batch["obs"].values()))))
            return batch

    config = PPOConfig().environment(Counter).env_runners(
        num_env_runners=0,
        env_to_module_connector=lambda *args, **kwargs: [FrameStackingEnvToModule(num_frames=3), Seen()],
        **options,
    )
    runner = SingleAgentEnvRunner(config=config)
    runner.sample(num_timesteps=5)
    episodes = runner.sample(num_timesteps=5)
    batch = FrameStackingLearner(num_frames=3)(rl_module=None, batch={}, episodes=episodes, shared_data={})
    return saw[5:10], corner(next(iter(batch["obs"].values())))


policy, learner = stacks()
print("the policy saw:", policy)
print("the learner gets:", learner)
print("with a lookback of 3:", stacks(episode_lookback_horizon=3)[1])
assert policy[0] == [4, 5, 6] and learner == [[0, 5, 6], *policy[1:]], "it changed"
PY
