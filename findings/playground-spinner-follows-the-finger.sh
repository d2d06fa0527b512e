#!/usr/bin/env bash
# What: the starts of FingerSpin: two joints of the finger and the angle of the spinner.
# Version: playground 0.2.0 with mujoco 4.0.0, mujoco-mjx 3.17.0 and jax 0.11.2, Python 3.12.
# Expected: three independent angles, as in dm_control, from which the task comes.
# Seen: one key is used for the joints and again for the spinner. The same random number gives the first
#   joint and the spinner, so that one is a straight line of the other: the finger at one end of its
#   range always meets the spinner at one angle. FingerTurnEasy and -Hard begin alike.
# Output:
#   correlations of joint 1, joint 2, spinner:
#    [[ 1.    -0.103  1.   ]
#    [-0.103  1.    -0.103]
#    [ 1.    -0.103  1.   ]]
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet playground==0.2.0 mujoco==4.0.0 mujoco-mjx==3.17.0 brax==0.14.2 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import jax
import numpy as np
from mujoco_playground import registry

env = registry.load("FingerSpin", config_overrides={"impl": "jax"})
starts = jax.jit(jax.vmap(lambda key: env.reset(key).data.qpos))(jax.random.split(jax.random.key(0), 64))
correlation = np.corrcoef(np.asarray(starts).T)
print("correlations of joint 1, joint 2, spinner:\n", correlation.round(3))
assert correlation[0, 2] > 0.999 and abs(correlation[0, 1]) < 0.4, "it changed"
PY
