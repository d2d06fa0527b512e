#!/usr/bin/env bash
# What: what MultiStepReplayBuffer stores for the last step of an episode.
# Version: agilerl 2.58.0 (its tensordict is 0.13.0), Python 3.11.
# Expected: a sum of n rewards stops where the episode ends. The terminal step itself has its own
#   reward, its own next observation and done = 1.
# Seen: the search for an end begins at the second of the n steps. A window that begins with a terminal
#   step goes on through the next episode: its rewards are added, next_obs is an observation of the next
#   episode, and done is that of a later step, so that an end is often stored as none at all. The other
#   steps of the episode are right.
# Output:
#   obs, reward, next_obs, done: [[0.0, 6.0, 2.0, 1.0], [1.0, 310.0, 5.0, 0.0]]
#   expected for the terminal step: [1, 10, 2, 1]
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet agilerl==2.58.0
venv/bin/python - <<'PY'
import torch
from agilerl.components.replay_buffer import MultiStepReplayBuffer
from tensordict import TensorDict

buffer = MultiStepReplayBuffer(100, n_step=3, gamma=0.5)
# obs, next_obs, reward, done: an episode of two steps, then one that goes on.
for obs, next_obs, reward, done in [
    (0, 1, 1, 0), (1, 2, 10, 1), (3, 4, 100, 0), (4, 5, 1000, 0), (5, 6, 0, 0),
]:  # fmt: skip
    row = {"obs": obs, "action": 0, "reward": reward, "next_obs": next_obs, "done": done}
    buffer.add(TensorDict({k: torch.tensor([[float(v)]]) for k, v in row.items()}, batch_size=[1]))
rows = buffer.sample_from_indices(torch.arange(len(buffer)))
stored = [[float(rows[k][i]) for k in ("obs", "reward", "next_obs", "done")] for i in range(2)]
print("obs, reward, next_obs, done:", stored)
print("expected for the terminal step: [1, 10, 2, 1]")
assert stored[0] == [0, 1 + 0.5 * 10, 2, 1], "it changed"
assert stored[1] == [1, 10 + 0.5 * 100 + 0.25 * 1000, 5, 0], "it changed"
PY
