#!/usr/bin/env bash
# What: TimeMaxPool(T=3) over an observation that is always negative.
# Version: torchrl 0.14.1 with tensordict 0.14.3 and torch 2.13.0, Python 3.11.
# Expected: the highest of the observations so far, at most three.
# Seen: in the first two steps of every episode it is 0, which was never observed: a reset fills the
#   buffer with zeros, and they take part in the maximum. Pixels do not show it; frames that were
#   normalised, heights and distances do. The place of the transform in the list decides.
# Output:
#   heights: [-5.0, -6.0, -7.0, -8.0] - highest of the last three: [0.0, 0.0, -5.0, -6.0] - expected [-5, -5, -5, -6]
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet torchrl==0.14.1 tensordict==0.14.3 torch==2.13.0
venv/bin/python - <<'PY'
import torch
from tensordict import TensorDict
from torchrl.data import Composite, Unbounded
from torchrl.envs import EnvBase, TimeMaxPool, TransformedEnv


class Sinking(EnvBase):
    """Its height is -5, -6, -7 and so on."""

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(height=Unbounded((1,)))
        self.action_spec, self.reward_spec = Unbounded((1,)), Unbounded((1,))

    def _reset(self, tensordict):
        self.height = torch.full((1,), -5.0)
        return TensorDict({"height": self.height})

    def _step(self, tensordict):
        self.height = self.height - 1
        no = torch.tensor([False])
        reward = torch.zeros(1)
        return TensorDict({"height": self.height, "reward": reward, "terminated": no, "done": no.clone()})

    def _set_seed(self, seed):
        pass


pool = TimeMaxPool(in_keys=["height"], out_keys=["highest"], T=3)
seen = TransformedEnv(Sinking(), pool).rollout(4)
heights, highest = (seen[name].ravel().tolist() for name in ("height", "highest"))
print("heights:", heights, "- highest of the last three:", highest, "- expected [-5, -5, -5, -6]")
assert heights == [-5, -6, -7, -8] and highest == [0, 0, -5, -6], "it changed"
PY
