#!/usr/bin/env bash
# What: an action that a Normal squashed by Tanh has sampled, given back to its log_prob.
# Version: distrax 0.1.9 with jax 0.11.2, Python 3.12, CPU.
# Expected: log_prob of a sample is what sample_and_log_prob gave with it, or at worst infinite where
#   float32 has rounded the action to 1.
# Seen: it is NaN, and its gradient infinite: infinity is drawn from infinity on the way back. The mean
#   need only be at 6: some of the actions are then exactly 1. SAC, which takes both at once, never sees
#   it; in PPO or a clone, which keep the action and compute log_prob later, one such action of a batch is
#   enough to lose all parameters.
# Output:
#   actions that are 1: 230 of 10000
#   log_prob with the sample: all finite True
#   log_prob of the same actions: NaN 230, infinite 0
#   gradient by the mean: inf
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet distrax==0.1.9 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import distrax
import jax
import jax.numpy as jnp


def policy(mean):
    return distrax.Transformed(distrax.Normal(mean, jnp.float32(1)), distrax.Tanh())


mean = jnp.float32(6)
actions, together = policy(mean).sample_and_log_prob(seed=jax.random.key(0), sample_shape=10_000)
ones = actions == 1
print("actions that are 1:", ones.sum(), "of", len(actions))
print("log_prob with the sample: all finite", jnp.isfinite(together).all())
later = policy(mean).log_prob(actions)
print(f"log_prob of the same actions: NaN {jnp.isnan(later).sum()}, infinite {jnp.isinf(later).sum()}")
slope = jax.grad(lambda x: policy(x).log_prob(actions).mean())(mean)
print("gradient by the mean:", slope)
assert 0 < ones.sum() < len(actions) and jnp.isfinite(together).all()
assert (jnp.isnan(later) == ones).all() and not jnp.isfinite(slope), "it changed"
PY
