#!/usr/bin/env bash
# What: a motor with a filter and actearly="true", stepped by MuJoCo and by MJX in double precision.
# Version: mujoco-mjx 3.17.0 (JAX implementation) with mujoco 4.0.0 and jax 0.11.2, Python 3.12, CPU.
# Expected: MJX moves the joint as MuJoCo does, to rounding, as it does with actearly="false"; what it
#   lacks, `put_model` refuses with NotImplementedError.
# Seen: `put_model` takes the model, and MJX computes it as if actearly were false: each force comes one
#   step late. A policy meets another delay than the one that the model file asks for, and a controller
#   that was tuned in MuJoCo is a step slower.
# Output:
#   actearly=false: MuJoCo 0.06455 MJX 0.06455
#   actearly=true: MuJoCo 0.06962 MJX 0.06455
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet mujoco==4.0.0 mujoco-mjx==3.17.0 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import jax
import mujoco
import numpy as np
from mujoco import mjx

jax.config.update("jax_enable_x64", True)


def angles(early):
    model = mujoco.MjModel.from_xml_string(f"""<mujoco><worldbody><body><joint name="a" axis="0 1 0"/>
    <geom size="0.05" pos="0.3 0 0"/></body></worldbody><actuator><general joint="a" dyntype="filter"
    dynprm="0.02" gainprm="5" actearly="{early}"/></actuator></mujoco>""")
    data = mujoco.MjData(model)
    data.ctrl[:] = 1
    put = mjx.put_model(model, impl="jax")
    theirs, step = mjx.put_data(model, data, impl="jax"), jax.jit(mjx.step)
    for _ in range(20):
        mujoco.mj_step(model, data)
        theirs = step(put, theirs)
    print(f"actearly={early}: MuJoCo {data.qpos[0]:.5f} MJX {theirs.qpos[0]:.5f}")
    return data.qpos[0], float(theirs.qpos[0])


late, early = angles("false"), angles("true")
assert np.isclose(*late, atol=1e-9), "without it they should agree"
assert np.isclose(late[1], early[1], atol=1e-9) and early[0] > 1.05 * early[1], "it changed"
PY
