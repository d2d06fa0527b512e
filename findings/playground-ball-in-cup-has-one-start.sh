#!/usr/bin/env bash
# What: the starts of BallInCup.
# Version: playground 0.2.0 with mujoco 4.0.0, mujoco-mjx 3.17.0 and jax 0.11.2, Python 3.12.
# Expected: as in dm_control, from which the task comes, the ball begins at a random place (x from -0.2
#   to 0.2, z from 0.2 to 0.5).
# Seen: `reset` does not look at its key. Every episode of every slot begins with the ball hanging at
#   rest, so that all slots with one policy do the same, and a policy is trained and judged on a single
#   start.
# Output:
#   first observations of 8 keys:
#    [[0. 0. 0. 0. 0. 0. 0. 0.]
#    [0. 0. 0. 0. 0. 0. 0. 0.]
#    [0. 0. 0. 0. 0. 0. 0. 0.]
#    [0. 0. 0. 0. 0. 0. 0. 0.]
#    [0. 0. 0. 0. 0. 0. 0. 0.]
#    [0. 0. 0. 0. 0. 0. 0. 0.]
#    [0. 0. 0. 0. 0. 0. 0. 0.]
#    [0. 0. 0. 0. 0. 0. 0. 0.]]
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet playground==0.2.0 mujoco==4.0.0 mujoco-mjx==3.17.0 brax==0.14.2 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import jax
import numpy as np
from mujoco_playground import registry

env = registry.load("BallInCup", config_overrides={"impl": "jax"})
reset = jax.jit(env.reset)
starts = np.stack([reset(jax.random.key(seed)).obs for seed in range(8)])
print("first observations of 8 keys:\n", starts)
assert (starts == starts[0]).all(), "it changed: starts differ"
PY
