#!/usr/bin/env bash
# What: whether the observation of WalkerWalk tells how high the torso is.
# Version: playground 0.2.0 with mujoco 4.0.0, mujoco-mjx 3.17.0 and jax 0.11.2, Python 3.12.
# Expected: as in dm_control, from which the task comes, it has the orientations (14 numbers), the height
#   of the torso and the velocities (9). The reward is for a height of 1.2.
# Seen: the number in the place of the height is the cosine of the pitch of the torso, which the
#   orientations hold already. Two states that differ by a metre in height look the same.
# Output:
#   torso at 1.30 m: number 14 of 24 is 1.00
#   torso at 2.30 m: number 14 of 24 is 1.00
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet playground==0.2.0 mujoco==4.0.0 mujoco-mjx==3.17.0 brax==0.14.2 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import numpy as np
from mujoco import mjx
from mujoco_playground import registry

env = registry.load("WalkerWalk", config_overrides={"impl": "jax"})
height = env.mj_model.joint("rootz").qposadr[0]
torso = env.mj_model.body("torso").id
seen = []
for lift in (0.0, 1.0):
    data = mjx.make_data(env.mj_model, impl="jax")
    data = mjx.kinematics(env.mjx_model, data.replace(qpos=data.qpos.at[height].set(lift)))
    seen.append(np.asarray(env._get_obs(data, {})))
    print(f"torso at {data.xpos[torso, 2]:.2f} m: number 14 of {seen[-1].size} is {seen[-1][14]:.2f}")
assert seen[0].shape == (24,)
assert np.array_equal(*seen), "it changed: the observation tells the height"
PY
