#!/usr/bin/env bash
# What: how often `transforms.spatial` visits a pair of agents within range.
# Version: esquilax 2.1.0 with jax 0.11.2, Python 3.12.
# Expected: the function is applied once to each pair, so a sum of ones is the number of neighbours,
#   whatever the range.
# Seen: with a range of more than a third of the space, which leaves two cells a side, a neighbour in
#   another cell counts twice, and a diagonal one four times. A cell is the left and the right neighbour
#   of the other, since space is a torus, and both visits are summed. A quarter of the space is right.
# Output:
#   range 0.25: neighbours [2, 1, 1]
#   range 0.3: neighbours [2, 2, 2]
#   range 0.34: neighbours [4, 6, 6]
#   range 0.5: neighbours [4, 6, 6]
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet esquilax==2.1.0 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import esquilax
import jax.numpy as jnp

# 0.2 apart, 0.2 apart and 0.28 apart: three neighbours of each other for a range of 0.3 and more.
positions = jnp.array([[0.4, 0.1], [0.6, 0.1], [0.4, 0.9]])
ones = jnp.ones(3, int)
seen = {}
for i_range in (0.25, 0.3, 0.34, 0.5):
    count = esquilax.transforms.spatial(
        lambda _, a, b: b, i_range=i_range, reduction=esquilax.reductions.add(dtype=int)
    )
    seen[i_range] = count(None, ones, ones, pos=positions).tolist()
    print(f"range {i_range}: neighbours {seen[i_range]}")
assert seen == {0.25: [2, 1, 1], 0.3: [2, 2, 2], 0.34: [4, 6, 6], 0.5: [4, 6, 6]}, "it changed"
PY
