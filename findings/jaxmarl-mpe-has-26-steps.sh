#!/usr/bin/env bash
# What: the length of an episode of the particle world simple_spread.
# Version: jaxmarl 0.2.0 with jax 0.11.2, against mpe2 1.1.1, Python 3.12.
# Expected: both have 25 steps, the number that both state (max_steps, max_cycles).
# Seen: 25 in mpe2, 26 in jaxmarl, which compares its counter with the limit before it counts. A return is
#   the sum of 26 rewards, and cannot be compared with one of 25. max_steps=24 has 25 steps.
# Output:
#   limit: 25 - steps in jaxmarl: 26 - in mpe2: 25
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet jaxmarl==0.2.0 mpe2==1.1.1 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import jax
import jaxmarl
import mpe2.simple_spread_v3

peer = mpe2.simple_spread_v3.parallel_env()
peer.reset(seed=0)
theirs = 0
while peer.agents:
    peer.step({agent: 0 for agent in peer.agents})
    theirs += 1

env = jaxmarl.make("MPE_simple_spread_v3")
key = jax.random.key(0)
_, state = env.reset(key)
step, ours, done = jax.jit(env.step_env), 0, False
while not done:
    _, state, _, dones, _ = step(key, state, {agent: 0 for agent in env.agents})
    ours, done = ours + 1, bool(dones["__all__"])
print("limit:", env.max_steps, "- steps in jaxmarl:", ours, "- in mpe2:", theirs)
assert env.max_steps == theirs == 25 and ours == 26, "it changed"
PY
