#!/usr/bin/env bash
# What: slots 0 and 2 of three, reset together in the scenario "simple" of jaxvmas.
# Version: jaxvmas 0.0.1a1 with jax 0.10.2 and pyglet 1.5.27, Python 3.11.
# Expected: each slot draws a start of its own, as it does in `reset`.
# Seen: `reset_at` draws one position and gives it to all slots of its index, so that all that end in the same step
#   go on alike: with one limit of steps, all episodes but the first begin at the same place. The original, VMAS,
#   takes one index a call. Steps, rewards and limits of "simple" are as in VMAS 1.5.2.
# Output:
#   distinct starts after reset: 3
#   distinct starts after reset_at of slots 0 and 2: 1
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet jaxvmas==0.0.1a1 jax==0.10.2 pyglet==1.5.27
venv/bin/python - 2>warnings <<'PY'
import pyglet

pyglet.options["headless"] = True
import jax
import jax.numpy as jnp
import numpy as np
from jaxvmas.make_env import make_env


def starts(env):
    return np.asarray(env.world.agents[0].state.pos)


env = make_env("simple", 3, jax.random.PRNGKey(0))
env, _ = env.reset(PRNG_key=jax.random.PRNGKey(1))
first = len(np.unique(starts(env), axis=0))
env, _ = env.reset_at(PRNG_key=jax.random.PRNGKey(2), index=jnp.array([0, 2]))
again = len(np.unique(starts(env)[[0, 2]], axis=0))
print("distinct starts after reset:", first)
print("distinct starts after reset_at of slots 0 and 2:", again)
assert (first, again) == (3, 1), "it changed"
PY
