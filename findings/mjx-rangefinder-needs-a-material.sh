#!/usr/bin/env bash
# What: a rangefinder in a model without a material.
# Version: mujoco-mjx 3.17.0 (JAX implementation) with mujoco 4.0.0 and jax 0.11.2, Python 3.12.
# Expected: `mjx.step` gives the distance that MuJoCo gives, or `put_model` refuses the sensor.
# Seen: `put_model` takes the model, and `step` raises a TypeError about a gather, which names neither the
#   sensor nor a material: the colours of the materials are looked up for every geom, and there are none.
#   A model with one material that nothing uses reads what MuJoCo reads. `mjx.ray` does the same.
# Output:
#   with a material: MuJoCo 0.900, MJX 0.900
#   without: MuJoCo 0.900, MJX TypeError: Slice size at index 0 in gather op is out of range, must be within [0, 0 + 1), got 1.
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet mujoco==4.0.0 mujoco-mjx==3.17.0 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import jax
import mujoco
from mujoco import mjx

XML = """<mujoco><asset>%s</asset><worldbody>
  <geom type="box" size=".1 1 .1" pos="1 0 1"/>
  <body pos="0 0 1"><joint type="slide"/><geom type="sphere" size=".05"/><site name="eye" zaxis="1 0 0"/></body>
</worldbody><sensor><rangefinder site="eye"/></sensor></mujoco>"""


def read(asset):
    model = mujoco.MjModel.from_xml_string(XML % asset)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data)
    there = mjx.put_model(model)
    try:
        seen = f"{jax.jit(mjx.step)(there, mjx.make_data(there)).sensordata[0]:.3f}"
    except TypeError as error:
        seen = f"TypeError: {error}".splitlines()[0]
    return f"MuJoCo {data.sensordata[0]:.3f}, MJX {seen}"


print("with a material:", read('<material name="unused"/>'))
print("without:", without := read(""))
assert "TypeError" in without, "it changed: no material is needed"
PY
