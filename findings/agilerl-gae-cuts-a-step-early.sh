#!/usr/bin/env bash
# What: where the advantages of the RolloutBuffer (PPO) stop at the end of an episode.
# Version: agilerl 2.58.0, Python 3.11.
# Expected: with values of 0, gamma = lambda = 1, the return of a step is the sum of the rewards up to
#   the end of its episode. use_gae=True and use_gae=False then agree. `done` belongs to the step that
#   it is added with: collect_rollouts passes what env.step has just returned.
# Seen: use_gae=True, the default, reads the `done` of the following step. The step before the last is
#   cut off from the last, and the last one runs on into the next episode, with its value and all its
#   advantages. Only the end of the rollout is right. use_gae=False is right everywhere.
# Output:
#   without GAE: [11.0, 10.0, 1100.0, 1000.0]
#   with GAE, lambda 1: [1.0, 110.0, 100.0, 1000.0]
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet agilerl==2.58.0
venv/bin/python - <<'PY'
import numpy as np
from agilerl.components.rollout_buffer import RolloutBuffer
from gymnasium import spaces

steps = [(1, 0), (10, 1), (100, 0), (1000, 1)]  # reward, done: two episodes of two steps
returns = {}
for use_gae in (False, True):
    buffer = RolloutBuffer(
        capacity=4, num_envs=1, device="cpu", use_gae=use_gae, gamma=1.0, gae_lambda=1.0,
        observation_space=spaces.Box(-1, 1, (1,)), action_space=spaces.Discrete(2),
    )  # fmt: skip
    zeros = np.zeros(1, np.float32)
    for reward, done in steps:
        buffer.add(
            obs=zeros[None], next_obs=zeros[None], action=np.zeros(1), value=zeros, log_prob=zeros,
            reward=np.array([reward], np.float32), done=np.array([done]),
        )  # fmt: skip
    buffer.compute_returns_and_advantages(last_value=zeros, last_done=np.ones(1))
    returns[use_gae] = buffer.buffer["returns"].ravel().tolist()
print("without GAE:", returns[False])
print("with GAE, lambda 1:", returns[True])
assert returns[False] == [11, 10, 1100, 1000], "it changed"
assert returns[True] == [1, 110, 100, 1000], "it changed"
PY
