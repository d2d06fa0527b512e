#!/usr/bin/env bash
# What: the value that PPO adds to the reward of an episode that was cut by a time limit.
# Version: rsl-rl-lib 5.5.1 with torch 2.13.0, Python 3.11.
# Expected: gamma times the value of the last observation of the episode, the one after the step, as for
#   every other step that is not an end.
# Seen: gamma times the value of the observation BEFORE the step, which counts the reward of that step
#   twice (once in itself, once in the value). There is no way to hand the last observation in: the
#   runner gets that of the next episode. With rewards of 1 and gamma = 0.9, values of 10 everywhere hide
#   it; where values change from step to step, as before a fall or at a goal, they are wrong.
# Output:
#   stored 0.6878; gamma * V(after) 0.9551; gamma * V(before) 0.6878
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet rsl-rl-lib==5.5.1 tensordict==0.14.3 torch==2.13.0
venv/bin/python - <<'PY'
import torch
from rsl_rl.algorithms import PPO
from rsl_rl.models import MLPModel
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict


def obs(x):
    return TensorDict({"policy": torch.tensor([[float(x)]])}, batch_size=[1])


torch.manual_seed(0)
groups = {"actor": ["policy"], "critic": ["policy"]}
noise = {"class_name": "GaussianDistribution"}
actor = MLPModel(obs(0), groups, "actor", 1, hidden_dims=(8,), distribution_cfg=noise)
critic = MLPModel(obs(0), groups, "critic", 1, hidden_dims=(8,))
storage = RolloutStorage("rl", 1, 1, obs(0), [1])
ppo = PPO(actor, critic, storage, gamma=0.9)
ppo.act(obs(1))  # the observation before the last step; after it comes 2, then a start, 0
limit = torch.ones(1)
ppo.process_env_step(obs(0), torch.zeros(1), limit, {"time_outs": limit, "final_obs": obs(2)})
with torch.no_grad():
    before, after = (0.9 * critic(obs(x)).item() for x in (1, 2))
stored = storage.rewards.item()
print(f"stored {stored:.4f}; gamma * V(after) {after:.4f}; gamma * V(before) {before:.4f}")
assert abs(stored - before) < 1e-6 < 0.1 < abs(stored - after), "it changed"
PY
