#!/usr/bin/env bash
# What: LayerNorm of numbers far from 0 in float32: a mean of 100 to 100,000 with a deviation of 1.
# Version: flax 0.12.12 with jax 0.11.2, Python 3.12, CPU.
# Expected: the output has a deviation of 1, as the same layer of other frameworks gives, up to rounding.
# Seen: by default the variance is the mean of squares less the square of the mean. Of its 24 bits none are
#   left at 3,000: the output is off by half, and at 100,000 it is 960 times too large (a variance of 0
#   leaves the epsilon). So observations in their own units (positions, prices, time stamps) get noise for
#   a scale. nn.LayerNorm, nn.GroupNorm and nnx.LayerNorm do so; use_fast_variance=False is right.
# Output:
#   mean 100: deviation of the output 1.000 by default, 1.000 with use_fast_variance=False
#   mean 3000: deviation of the output 0.480 by default, 1.000 with use_fast_variance=False
#   mean 100000: deviation of the output 959.554 by default, 1.000 with use_fast_variance=False
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet flax==0.12.12 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import flax.linen as nn
import jax
import numpy as np


def deviation(layer, x):
    return float(layer.apply(layer.init(jax.random.key(0), x), x).std())


seen = []
for mean in (100, 3_000, 100_000):
    x = mean + jax.random.normal(jax.random.key(0), (1, 64))
    fast, sound = (deviation(nn.LayerNorm(use_fast_variance=fast), x) for fast in (True, False))
    print(f"mean {mean}: deviation of the output {fast:.3f} by default, {sound:.3f} with use_fast_variance=False")
    assert np.isclose(sound, 1, atol=1e-3), "this should be right"
    seen.append(fast)
assert np.isclose(seen[0], 1, atol=1e-3) and abs(seen[1] - 1) > 0.2 and seen[2] > 100, "it changed"
PY
