#!/usr/bin/env bash
# What: clip_by_global_norm(1.0) and Adam with its defaults, on gradients in float16.
# Version: optax 0.2.8 with jax 0.11.2, Python 3.12, CPU.
# Expected: a gradient of a norm of 400 is scaled to 1, as in float32; a gradient of 0 does not move a
#   parameter.
# Seen: the squares are added up in float16, whose largest number is 65,504, so a norm above 256 counts as
#   infinite, and the gradient divided by it is 0: the largest gradients are dropped, without a NaN that
#   anybody could notice. With bfloat16 and float32 it is right. Adam divides 0 by its eps, and 1e-8 is 0
#   in float16: a parameter that got no gradient becomes NaN.
# Output:
#   float32: gradients of 100 clipped to 0.5, of 200 to 0.5; Adam at 0: -0.0
#   bfloat16: gradients of 100 clipped to 0.5, of 200 to 0.5; Adam at 0: -0.0
#   float16: gradients of 100 clipped to 0.5, of 200 to 0.0; Adam at 0: nan
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet optax==0.2.8 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import jax.numpy as jnp
import numpy as np
import optax

clip, adam = optax.clip_by_global_norm(1.0), optax.adam(1e-3)


def first(rule, number, dtype):
    """The first of four equal updates."""
    gradients = jnp.full(4, number, dtype)
    return float(rule.update(gradients, rule.init(gradients))[0][0])


seen = {}
for dtype in ("float32", "bfloat16", "float16"):
    small, large, still = first(clip, 100, dtype), first(clip, 200, dtype), first(adam, 0, dtype)
    print(f"{dtype}: gradients of 100 clipped to {small}, of 200 to {large}; Adam at 0: {still}")
    seen[dtype] = small, large, still
for dtype in ("float32", "bfloat16"):
    assert np.allclose(seen[dtype], (0.5, 0.5, 0)), "these should be right"
assert seen["float16"][:2] == (0.5, 0) and np.isnan(seen["float16"][2]), "it changed"
PY
