#!/usr/bin/env bash
# What: a hinge that a motor turns with torque 1, and the same with damping, armature or stiffness, after 0.2 seconds,
#   in the four back ends and in MuJoCo.
# Version: brax 0.14.2 with mujoco 4.0.0, mujoco-mjx 3.17.0 and jax 0.11.2, Python 3.12.
# Expected: `damping`, `armature` and `stiffness` of a joint, which `mjcf.load` puts into `sys.dof`, slow it in each
#   back end.
# Seen: "positional" and "spring" never read them, without a word: the joint turns as if it had none. What damps
#   there are custom numbers of Brax (`ang_damping`, `constraint_ang_damping`). A model that was tuned in MuJoCo or
#   "generalized" is another robot.
# Output:
#   radians per second with: nothing, damping 1, armature 1, stiffness 20
#     MuJoCo: 2.2 0.9 0.2 0.1
#     mjx: 2.2 0.9 0.2 0.1
#     generalized: 2.2 0.9 0.2 0.1
#     positional: 2.2 2.2 2.2 2.2
#     spring: 2.1 2.1 2.1 2.1
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet brax==0.14.2 mujoco==4.0.0 mujoco-mjx==3.17.0 jax==0.11.2 jaxlib==0.11.2
venv/bin/python -W ignore - <<'PY'
import importlib

import jax
import jax.numpy as jnp
import mujoco
from brax.io import mjcf

XML = """<mujoco><option timestep="0.002" gravity="0 0 0"/><worldbody><body pos="0 0 2">
<joint name="hinge" type="hinge" axis="0 1 0" {}/><geom type="capsule" fromto="0 0 0 .5 0 0" size=".05" mass="1"/>
</body></worldbody><actuator><motor joint="hinge"/></actuator></mujoco>"""


def speed(name, hinge):
    if name == "MuJoCo":
        model = mujoco.MjModel.from_xml_string(XML.format(hinge))
        data = mujoco.MjData(model)
        data.ctrl[:] = 1
        mujoco.mj_step(model, data, 100)
        return float(data.qvel[0])
    sys, pipeline = mjcf.loads(XML.format(hinge)), importlib.import_module(f"brax.{name}.pipeline")

    @jax.jit
    def run():
        state = pipeline.init(sys, jnp.zeros(1), jnp.zeros(1))
        return jax.lax.fori_loop(0, 100, lambda _, s: pipeline.step(sys, s, jnp.ones(1)), state).qd[0]

    return float(run())


print("radians per second with: nothing, damping 1, armature 1, stiffness 20")
seen = {}
for name in ("MuJoCo", "mjx", "generalized", "positional", "spring"):
    seen[name] = [round(speed(name, hinge), 1) for hinge in ("", 'damping="1"', 'armature="1"', 'stiffness="20"')]
    print(f"  {name}:", *seen[name])
assert len(set(seen["generalized"])) == len(set(seen["mjx"])) == 4
assert all(len(set(seen[name])) == 1 for name in ("positional", "spring")), "it changed"
PY
