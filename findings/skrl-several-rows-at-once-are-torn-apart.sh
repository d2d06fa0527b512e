#!/usr/bin/env bash
# What: three transitions that are added to a memory of one environment in one call.
# Version: skrl 2.1.1 with torch 2.13.0, Python 3.11.
# Expected: row t holds the observation and the reward of transition t. The documentation of add_samples has this
#   case: "store multiple samples and increment the memory index by the number of samples".
# Seen: the index moves on after each tensor of a transition, not after all of them: observations lie in rows 0
#   to 2, rewards in rows 3 to 5, and so on; the memory counts six rows. Sampled observations have the reward of
#   another transition or NaN, which the memory begins with. A data set that is read in one call is scrambled so;
#   one row for each call is right.
# Output:
#   observations: [0.0, 1.0, 2.0, nan, nan, nan]
#   rewards: [nan, nan, nan, 0.0, 10.0, 20.0]
#   rows: 6 - expected 3
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet skrl==2.1.1 torch==2.13.0
venv/bin/python - <<'PY'
import torch
from skrl.memories.torch import RandomMemory

memory = RandomMemory(memory_size=6, num_envs=1, device="cpu")
for name in ("observations", "rewards"):
    memory.create_tensor(name, size=1, dtype=torch.float32)
x = torch.arange(3.0)[:, None]
memory.add_samples(observations=x, rewards=10 * x)
observations, rewards = (memory.get_tensor_by_name(n).ravel() for n in ("observations", "rewards"))
print("observations:", observations.tolist())
print("rewards:", rewards.tolist())
print("rows:", len(memory), "- expected 3")
assert len(memory) == 6 and observations[:3].tolist() == [0, 1, 2], "it changed"
assert rewards[3:].tolist() == [0, 10, 20] and rewards[:3].isnan().all(), "it changed"
PY
