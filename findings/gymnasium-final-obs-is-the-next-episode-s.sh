#!/usr/bin/env bash
# What: `infos["final_obs"]` of a vector environment whose environments return one array again and again.
# Version: gymnasium 1.4.0 with numpy 2.4.6, Python 3.11; 1.3.0 does the same.
# Expected: the observation of the step that ended the episode, 3, as in the other modes.
# Seen: with SAME_STEP it is the first observation of the next episode, 500, since the array is kept while the
#   environment is reset, and not copied: with `copy=True` too, and in `AsyncVectorEnv` with and without shared
#   memory. A trainer that takes the value of the last observation at a time limit takes that of another episode.
# Output:
#   final_obs of SyncVectorEnv, {'copy': True}: [500.0, 500.0]
#   final_obs of SyncVectorEnv, {'copy': False}: [500.0, 500.0]
#   final_obs of AsyncVectorEnv, {'shared_memory': True}: [500.0, 500.0]
#   final_obs of AsyncVectorEnv, {'shared_memory': False}: [500.0, 500.0]
#   last observation with NEXT_STEP: [3.0, 3.0]
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet gymnasium==1.4.0 numpy==2.4.6
cat > shown.py <<'PY'
import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv


class Env(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1000, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.obs = np.zeros(1, np.float32)

    def reset(self, seed=None, options=None):
        self.t, self.obs[:] = 0, 500
        return self.obs, {}

    def step(self, action):
        self.t += 1
        self.obs[:] = self.t
        return self.obs, 0.0, self.t == 3, False, {}


def played(kind, mode, **keywords):
    env = kind([Env] * 2, autoreset_mode=mode, **keywords)
    env.reset(seed=0)
    for _ in range(3):
        obs, *_, infos = env.step(np.zeros(2, int))
    env.close()
    return np.stack(infos.get("final_obs", obs)).ravel().tolist()


if __name__ == "__main__":
    same = AutoresetMode.SAME_STEP
    for kind, name in (SyncVectorEnv, "copy"), (AsyncVectorEnv, "shared_memory"):
        for value in (True, False):
            seen = played(kind, same, **{name: value})
            print(f"final_obs of {kind.__name__}, { {name: value} }: {seen}")
            assert seen == [500, 500], "it changed: the array is copied"
    print("last observation with NEXT_STEP:", played(SyncVectorEnv, AutoresetMode.NEXT_STEP))
PY
venv/bin/python -W ignore shown.py
