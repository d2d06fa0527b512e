#!/usr/bin/env bash
# What: a capsule that falls through water, with the drag of its box (fluidshape="none") and with that of
#   an ellipsoid (lift, drag by direction), in MuJoCo and in MJX.
# Version: mujoco-mjx 3.17.0 (JAX implementation) with mujoco 4.0.0 and jax 0.11.2, Python 3.12.
# Expected: MJX moves as MuJoCo does, or put_model refuses the model, as it does for what MJX lacks.
# Seen: put_model takes fluidshape="ellipsoid", and MJX computes it as "none", to the last digit: the arm
#   turns half as far again. Fins and wings give no lift.
# Output:
#   mujoco, fluidshape none: 0.5318 rad after 60 steps
#   mjx, fluidshape none: 0.5318 rad after 60 steps
#   mujoco, fluidshape ellipsoid: 0.3563 rad after 60 steps
#   mjx, fluidshape ellipsoid: 0.5318 rad after 60 steps
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet mujoco==4.0.0 mujoco-mjx==3.17.0 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import jax

jax.config.update("jax_enable_x64", True)
import mujoco
import numpy as np
from mujoco import mjx


def model(shape):
    return mujoco.MjModel.from_xml_string(f"""
    <mujoco><option timestep="0.005" density="1000"/>
      <worldbody><body><joint type="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 .5 0 0" size=".05" mass="1" fluidshape="{shape}"/>
      </body></worldbody></mujoco>""")


def angle(shape, engine):
    m = model(shape)
    data = mujoco.MjData(m)
    if engine == "mujoco":
        for _ in range(60):
            mujoco.mj_step(m, data)
        return data.qpos[0]
    put, step = mjx.put_model(m), jax.jit(mjx.step)
    data = mjx.put_data(m, data)
    for _ in range(60):
        data = step(put, data)
    return float(data.qpos[0])


found = {(shape, engine): angle(shape, engine) for shape in ("none", "ellipsoid") for engine in ("mujoco", "mjx")}
for (shape, engine), value in found.items():
    print(f"{engine}, fluidshape {shape}: {value:.4f} rad after 60 steps")
assert np.isclose(found["none", "mjx"], found["none", "mujoco"], atol=1e-9)
assert abs(found["ellipsoid", "mujoco"] - found["none", "mujoco"]) > 0.1
assert np.isclose(found["ellipsoid", "mjx"], found["none", "mjx"], atol=1e-9), "it changed"
PY
