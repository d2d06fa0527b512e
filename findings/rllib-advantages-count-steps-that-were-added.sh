#!/usr/bin/env bash
# What: the standardised advantages of PPO, of ten episodes of one step, with rewards of 0 and 2 in turn.
# Version: ray 2.60.0 with torch 2.13.0 and gymnasium 1.2.2, Python 3.11.
# Expected: over the steps that are trained on the mean of the advantages is 0 and their deviation 1: a step
#   that earns less than the critic says has a negative one.
# Seen: a row is added after each episode and fragment, which carries the value of the last observation. The loss
#   leaves it out; mean and deviation count it, though its advantage means nothing (it holds the return of the
#   next episode, less the value of an end, which nothing trains). Here all real advantages become positive. The
#   shorter the episodes, the more such rows.
# Output:
#   rewards 0 and 2, standardised: [0.76, 1.19, 0.76, 1.19] - expected [-1, 1, -1, 1]
#   mean over the 10 real steps: 1.0 - over all 20 rows: 0.0
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet "ray[rllib]==2.60.0" torch==2.13.0 gymnasium==1.2.2
venv/bin/python - 2>warnings <<'PY'
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.learner import AddOneTsToEpisodesAndTruncate, GeneralAdvantageEstimation
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

SPACES = Box(0, 9, (1,)), Discrete(2)


class Module(TorchRLModule, ValueFunctionAPI):
    """The value of the start is 1, which is right; nothing trains that of the end, here 10."""

    def setup(self):
        self.layer = torch.nn.Linear(1, 1)

    def compute_values(self, batch, embeddings=None):
        return torch.where(batch["obs"][..., 0] == 0, 1.0, 10.0)

    def _forward(self, batch, **kwargs):
        return {}


def episode(reward):
    """One step, from observation 0 to observation 1."""
    one = SingleAgentEpisode(observation_space=SPACES[0], action_space=SPACES[1])
    one.add_env_reset(np.zeros(1, np.float32))
    one.add_env_step(np.ones(1, np.float32), 0, reward, terminated=True)
    return one


spec = RLModuleSpec(module_class=Module, observation_space=SPACES[0], action_space=SPACES[1])
module = MultiRLModule(rl_module_specs={"default_policy": spec})
config = PPOConfig().environment(observation_space=SPACES[0], action_space=SPACES[1])
pipeline = config.build_learner_connector(*SPACES)
pipeline.prepend(AddOneTsToEpisodesAndTruncate())
pipeline.append(GeneralAdvantageEstimation(gamma=1.0, lambda_=1.0))
episodes = [episode(reward) for reward in (0.0, 2.0) * 5]
batch = pipeline(rl_module=module, batch={}, episodes=episodes, shared_data={})["default_policy"]
real, advantages = (np.asarray(batch[name]) for name in ("loss_mask", "advantages"))
got = [round(float(x), 2) for x in advantages[real]]
print("rewards 0 and 2, standardised:", got[:4], "- expected [-1, 1, -1, 1]")
print("mean over the", real.sum(), "real steps:", round(sum(got) / 10, 1), "- over all", len(real), "rows: 0.0")
assert min(got) > 0 and len(real) == 20 and abs(advantages.mean()) < 1e-5, "it changed"
PY
