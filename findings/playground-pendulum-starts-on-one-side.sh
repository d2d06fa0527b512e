#!/usr/bin/env bash
# What: the starts of PendulumSwingup.
# Version: playground 0.2.0 with mujoco 4.0.0, mujoco-mjx 3.17.0 and jax 0.11.2, Python 3.12.
# Expected: as in dm_control, from which the task comes, the angle is uniform from -pi to pi.
# Seen: it is uniform from 0 to pi. The pole never begins on the other side: a policy sees half of the
#   starts, and a score is not that of dm_control. The observation differs as well: (sine, cosine) of the
#   angle here, (cosine, sine) there.
# Output:
#   angles from 0.001 to 3.141, mean 1.571
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet playground==0.2.0 mujoco==4.0.0 mujoco-mjx==3.17.0 brax==0.14.2 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import jax
import numpy as np
from mujoco_playground import registry

env = registry.load("PendulumSwingup", config_overrides={"impl": "jax"})
obs = jax.jit(jax.vmap(lambda key: env.reset(key).obs))(jax.random.split(jax.random.key(0), 4000))
angle = np.arctan2(obs[:, 0], obs[:, 1])
print(f"angles from {angle.min():.3f} to {angle.max():.3f}, mean {angle.mean():.3f}")
assert 0 <= angle.min() < 0.05 and angle.max() > 3.1, "it changed: both sides"
PY
