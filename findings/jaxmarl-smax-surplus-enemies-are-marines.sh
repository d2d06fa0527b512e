#!/usr/bin/env bash
# What: the units of a SMACv2 scenario of SMAX with more enemies than allies, as 10_vs_11 and 20_vs_23.
# Version: jaxmarl 0.2.0 with jax 0.11.2, Python 3.12.
# Expected: the types of all units are drawn, as in SMACv2.
# Seen: the enemies that have no ally of their number are marines in every battle: their types are drawn,
#   and what `.at[...].set(...)` returns is thrown away.
# Output:
#   number of types by unit, over 400 battles: allies [6, 6, 6], enemies [6, 6, 6, 1, 1]
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet jaxmarl==0.2.0 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import jax
import jax.numpy as jnp
import numpy as np
from jaxmarl import make
from jaxmarl.environments.smax.smax_env import Scenario

ALLIES, ENEMIES = 3, 5
drawn = Scenario(jnp.zeros(ALLIES + ENEMIES, jnp.uint8), ALLIES, ENEMIES, True, True)
env = make("SMAX", scenario=drawn)
keys = jax.random.split(jax.random.key(0), 400)
types = np.asarray(jax.jit(jax.vmap(lambda key: env.reset(key)[1].unit_types))(keys))
number = [len(np.unique(unit)) for unit in types.T]
print(
    f"number of types by unit, over {len(types)} battles:"
    f" allies {number[:ALLIES]}, enemies {number[ALLIES:]}"
)
assert number[:6] == [6] * 6 and number[6:] == [1, 1], "it changed: all are drawn"
PY
