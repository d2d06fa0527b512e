#!/usr/bin/env bash
# What: the return of a policy whose weights have become NaN, in InvertedPendulum.
# Version: brax 0.14.2 with mujoco 4.0.0, mujoco-mjx 3.17.0 and jax 0.11.2, Python 3.12.
# Expected: the pendulum falls, or the episode ends at the first observation that is not finite, as in
#   Gymnasium's. A return of 1000 is that of a pendulum that stands for 1000 steps.
# Seen: the return is 1000. The episode ends where the angle is above 0.2, which NaN never is, and every
#   step pays 1: an evaluation takes a run that has diverged for a perfect one. All four backends do so.
#   Ant and Humanoid do not end at NaN either, but their reward shows it.
# Output:
#   generalized: return of a policy at rest 22, of one of NaN 1000; observation [nan nan nan nan]
#   mjx: return of a policy at rest 22, of one of NaN 1000; observation [nan nan nan nan]
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet brax==0.14.2 mujoco==4.0.0 mujoco-mjx==3.17.0 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY' 2> >(grep -v -i warn >&2)
import jax
import jax.numpy as jnp
import numpy as np
from brax import envs


def played(backend, action):
    env = envs.create("inverted_pendulum", backend=backend, episode_length=1000, auto_reset=False)
    state = jax.jit(env.reset)(jax.random.PRNGKey(0))

    def step(carry, _):
        state, going = carry
        state = env.step(state, jnp.full(env.action_size, action))
        return (state, going * (1 - state.done)), going * state.reward

    (state, _), rewards = jax.jit(lambda x: jax.lax.scan(step, (x, 1.0), None, 1000))(state)
    return float(rewards.sum()), np.asarray(state.obs)


for backend in ("generalized", "mjx"):
    (rest, _), (nan, obs) = played(backend, 0.0), played(backend, jnp.nan)
    print(f"{backend}: return of a policy at rest {rest:.0f}, of one of NaN {nan:.0f}; observation {obs}")
    assert rest < 1000 == nan, "it changed: NaN ends the episode"
PY
