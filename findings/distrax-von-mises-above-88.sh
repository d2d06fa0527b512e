#!/usr/bin/env bash
# What: `log_prob` of a distribution over angles, VonMises, by its concentration.
# Version: distrax 0.1.9 with jax 0.11.2, Python 3.12, CPU.
# Expected: from a concentration of about 10 on it is close to a Normal of variance 1 / concentration: at
#   its mode log_prob is 1.38 for 100 and 3.69 for 10,000.
# Seen: -inf for every angle from a concentration of about 89 on (a deviation of 6 degrees): the constant
#   is the logarithm of a Bessel function that overflows in float32. Samples and entropy are right there. A
#   policy over angles that grows certain gets a loss of infinity, and gradients that are NaN.
# Output:
#   concentration 10: log_prob 0.219, of a Normal 0.232, gradient 0.051, deviation of samples 0.3377
#   concentration 80: log_prob 1.271, of a Normal 1.272, gradient 0.006, deviation of samples 0.1177
#   concentration 100: log_prob -inf, of a Normal 1.384, gradient nan, deviation of samples 0.1053
#   concentration 10000: log_prob -inf, of a Normal 3.686, gradient nan, deviation of samples 0.0105
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet distrax==0.1.9 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import distrax
import jax
import numpy as np


def log_prob(concentration, angle=0.0):
    return distrax.VonMises(0.0, concentration).log_prob(angle)


for concentration in (10.0, 80.0, 100.0, 10_000.0):
    at_mode, near = log_prob(concentration), 0.5 * np.log(concentration / 2 / np.pi)
    slope = jax.grad(log_prob)(concentration, 0.01)
    drawn = distrax.VonMises(0.0, concentration).sample(seed=jax.random.key(0), sample_shape=1000)
    print(
        f"concentration {concentration:.0f}: log_prob {at_mode:.3f}, of a Normal {near:.3f},"
        f" gradient {slope:.3f}, deviation of samples {drawn.std():.4f}"
    )
assert np.isneginf(at_mode) and np.isfinite(log_prob(80.0)), "it changed: finite"
PY
