#!/usr/bin/env bash
# What: FrameSkipTransform(4) around an environment whose state is in the tensordict, and around one that
#   keeps its state itself.
# Version: torchrl 0.14.1 with tensordict 0.14.3 and torch 2.13.0, Python 3.11.
# Expected: a step takes four frames, adds their rewards, and stops at the first frame that ends the
#   episode.
# Seen: each of the four frames begins at the state before the step. A stateless environment moves on by
#   one frame, and its reward is that of one frame, four times. With a state of its own four frames are
#   taken, whatever happens: rewards after an end count, and an end that is told once, in the second
#   frame, is lost.
# Output:
#   time, reward, done of two steps, stateless: [[1.0, 2.0], [4.0, 8.0], [False, False]] - expected [4, 8], [10, 26]
#   time, reward, done of one step that ends in frame 2: [[4.0], [10.0], [False]] - expected [2], [3], [True]
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet torchrl==0.14.1 tensordict==0.14.3 torch==2.13.0
venv/bin/python - <<'PY'
import torch
from tensordict import TensorDict
from torchrl.data import Composite, Unbounded
from torchrl.envs import EnvBase, FrameSkipTransform, TransformedEnv


class Count(EnvBase):
    """Frame n pays n. It ends, and says so once, in frame 2 if `ends`."""

    def __init__(self, stateless, ends):
        super().__init__()
        self.observation_spec = Composite(time=Unbounded((1,)))
        self.action_spec, self.reward_spec = Unbounded((1,)), Unbounded((1,))
        self.stateless, self.ends = stateless, ends

    def _reset(self, tensordict):
        self.time = torch.zeros(1)
        return TensorDict({"time": self.time})

    def _step(self, tensordict):
        self.time = (tensordict["time"] if self.stateless else self.time) + 1
        end = (self.time == 2) if self.ends else torch.tensor([False])
        return TensorDict({"time": self.time, "reward": self.time.clone(), "terminated": end, "done": end})

    def _set_seed(self, seed):
        pass


def play(steps, **kind):
    after = TransformedEnv(Count(**kind), FrameSkipTransform(4)).rollout(steps)["next"]
    return [after[name].ravel().tolist() for name in ("time", "reward", "done")]


stateless = play(2, stateless=True, ends=False)
ended = play(1, stateless=False, ends=True)
print("time, reward, done of two steps, stateless:", stateless, "- expected [4, 8], [10, 26]")
print("time, reward, done of one step that ends in frame 2:", ended, "- expected [2], [3], [True]")
assert stateless[:2] == [[1, 2], [4, 8]], "it changed"
assert ended == [[4], [10], [False]], "it changed"
PY
