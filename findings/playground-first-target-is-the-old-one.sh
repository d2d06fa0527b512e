#!/usr/bin/env bash
# What: the target in the first observation of an episode of ReacherEasy.
# Version: playground 0.2.0 with mujoco 4.0.0, mujoco-mjx 3.17.0 and jax 0.11.2, Python 3.12.
# Expected: the first observation has the vector from the finger to the target of this episode, as every
#   later one, and as in dm_control, from which the task comes.
# Seen: it has the vector to the place that the model file gives the target, (0, 0), in every episode.
#   `reset` moves the target after it has computed the positions, and computes none again. The first
#   action is taken towards a target that is not there. FishSwim, SwimmerSwimmer6 and FingerTurn are
#   written in the same way.
# Output:
#   target in the observation: [0. 0.] - target: [ 0.0726 -0.0078]
#   target in the observation: [0. 0.] - target: [0.1252 0.0844]
#   target in the observation: [0. 0.] - target: [ 0.0493 -0.0142]
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet playground==0.2.0 mujoco==4.0.0 mujoco-mjx==3.17.0 brax==0.14.2 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import jax
import numpy as np
from mujoco_playground import registry

env = registry.load("ReacherEasy", config_overrides={"impl": "jax"})
reset = jax.jit(env.reset)
finger = env.mj_model.geom("finger").id
for seed in range(3):
    state = reset(jax.random.key(seed))
    shown = np.asarray(state.obs[2:4] + state.data.geom_xpos[finger, :2])
    target = np.asarray(state.data.mocap_pos[0, :2])
    print("target in the observation:", shown.round(4), "- target:", target.round(4))
    assert np.allclose(shown, 0, atol=1e-6), "it changed"
    assert np.linalg.norm(target) > 0.04, "it changed"
PY
