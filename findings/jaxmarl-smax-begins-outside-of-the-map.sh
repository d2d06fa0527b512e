#!/usr/bin/env bash
# What: the starts of the SMACv2 scenarios of SMAX, and a first step in which all units rest.
# Version: jaxmarl 0.2.0 with jax 0.11.2, Python 3.12.
# Expected: every unit begins inside of the map, and nobody dies while nobody moves or shoots.
# Seen: in about one battle of ten a unit begins outside of the map: a group is put anywhere between the
#   centre and a corner, and each unit is then moved by up to 2. Outside counts as touching the wall, which
#   kills: the unit is dead after the first step. Where it is one of the enemies, the team is paid for it.
# Output:
#   battles that begin with a unit outside: 9.8% - with a unit dead after a step of rest: 9.8%
#   battles in which that step pays the allies: 4.6%
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet jaxmarl==0.2.0 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import jax
import jax.numpy as jnp
from jaxmarl import make
from jaxmarl.environments.smax import map_name_to_scenario

env = make("SMAX", scenario=map_name_to_scenario("smacv2_5_units"))
REST = 4


@jax.jit
@jax.vmap
def begin(key):
    _, state = env.reset(key)
    actions = {agent: jnp.int32(REST) for agent in env.agents}
    _, after, rewards, _, _ = env.step_env(key, state, actions)
    where = state.unit_positions
    outside = ((where <= 0) | (where >= jnp.array([env.map_width, env.map_height]))).any()
    return outside, (~after.unit_alive).any(), rewards["ally_0"] > 0


outside, dead, paid = (x.mean() for x in begin(jax.random.split(jax.random.key(0), 2000)))
print(f"battles that begin with a unit outside: {outside:.1%} - with a unit dead after a step of rest: {dead:.1%}")
print(f"battles in which that step pays the allies: {paid:.1%}")
assert dead > 0.02, "it changed: all begin inside"
PY
