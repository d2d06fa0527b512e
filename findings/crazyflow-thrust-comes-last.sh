#!/usr/bin/env bash
# What: the order of an action of crazyflow's environments.
# Version: crazyflow 0.4.0 with jax 0.12.0.1, Python 3.12.
# Expected: in the words of the class, [collective thrust, roll, pitch, yaw].
# Seen: [roll, pitch, yaw, thrust], as the bounds of the action space show. An action in the stated order
#   is clipped without a word: hovering thrust becomes a roll of 0.31 rad, and a yaw of 0 the lowest
#   thrust. The drone falls.
# Output:
#   as stated: vertical speed changes by -2.48 m/s in 0.3 s
#   thrust last: vertical speed changes by -0.04 m/s in 0.3 s
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet crazyflow==0.4.0 jax==0.12.0.1 jaxlib==0.12.0.1
venv/bin/python - <<'PY'
import warnings

warnings.filterwarnings("ignore")
import numpy as np
from crazyflow.envs import LandingEnv

print(next(line.strip() for line in LandingEnv.__mro__[1].__doc__.splitlines() if "roll" in line))
hover = 0.31  # newton, about the weight of the drone
for name, action in {"as stated": [hover, 0, 0, 0], "thrust last": [0, 0, 0, hover]}.items():
    env = LandingEnv(num_envs=1, freq=50)
    start = env.reset(seed=0)[0]["vel"][0]
    for _ in range(15):
        obs = env.step(np.array([action], np.float32))[0]
    fall = float(obs["vel"][0, 2] - start[2])
    print(f"{name}: vertical speed changes by {fall:.2f} m/s in 0.3 s")
    assert (fall < -1.5) == (name == "as stated"), "it changed"
low = env.single_action_space.low
assert (low[:3] < -1.5).all() and low[3] > 0, "it changed"
PY
