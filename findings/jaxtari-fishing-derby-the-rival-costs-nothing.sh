#!/usr/bin/env bash
# What: a game of Fishing Derby without any action, in JAXtari and in ALE.
# Version: jaxtari 0.2.0 with jax 0.11.2 against ale-py 0.12.1 (gymnasium 1.3.0), Python 3.12.
# Expected: as in ALE, each fish of the rival is a negative reward; who does nothing loses by 99.
# Seen: the reward is the change of the own score only. The rival fills its own to the end of the game, and the
#   return is 0, the lowest that there is: a policy cannot learn to be faster, and returns, from 0 to 99 in place
#   of -99 to 99, are not those of the literature.
# Output:
#   ALE: return -99.0
#   JAXtari: return 0.0, at the end the scores are 0 and 102
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet jaxtari==0.2.0 jax==0.11.2 jaxlib==0.11.2 ale-py==0.12.1 gymnasium==1.3.0
venv/bin/python - <<'PY'
from unittest.mock import MagicMock

import ale_py
import gymnasium
import jax
import jax.numpy as jnp
import jaxtari.games.jax_fishingderby as game

ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
gymnasium.register_envs(ale_py)
env = gymnasium.make("ALE/FishingDerby-v5", frameskip=1, repeat_action_probability=0.0)
env.reset(seed=0)
in_ale, over = 0.0, False
while not over:
    _, reward, terminated, truncated, _ = env.step(0)
    in_ale, over = in_ale + reward, terminated or truncated
print("ALE: return", in_ale)

game.FishingDerbyRenderer = MagicMock()  # it draws; its sprites are not in the package
env = game.FishingDerby()
step = jax.jit(env.step)
_, state = env.reset(jax.random.PRNGKey(0))
ours, over = 0.0, False
while not over:
    _, state, reward, over, _ = step(state, jnp.int32(0))
    ours += float(reward)
scores = int(state.p1.score), int(state.p2.score)
print(f"JAXtari: return {ours}, at the end the scores are {scores[0]} and {scores[1]}")
assert in_ale == -99 and ours == 0 and scores == (0, 102), "it changed"
PY
