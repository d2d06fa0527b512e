#!/usr/bin/env bash
# What: an agent of level 2 that loads between two foods of level 2, in LevelBasedForaging.
# Version: jumanji 1.1.2 with jax 0.11.2, against lbforaging 2.0.0, Python 3.12.
# Expected: as in lbforaging, the game that it is made after, an agent loads one food at a time.
# Seen: it takes both, and the whole return of the episode, in one step: each food counts the levels of
#   all agents around it that load, also of those that lift another one. Agents between foods do the work
#   of several; cooperation is asked for less often.
# Output:
#   jumanji: taken [True, True] rewards [1.0, 0.0]
#   lbforaging: taken [True, False] rewards [0.5, 0]
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet jumanji==1.1.2 lbforaging==2.0.0 gymnasium==1.3.0 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import gymnasium
import jax
import jax.numpy as jnp
import jumanji
import lbforaging
import numpy as np

env = jumanji.make("LevelBasedForaging-v0")
state, _ = jax.jit(env.reset)(jax.random.key(0))
agents = state.agents.replace(position=jnp.array([[3, 3], [7, 7]]), level=jnp.array([2, 1]))
food = state.food_items.replace(position=jnp.array([[3, 2], [3, 4]]), level=jnp.array([2, 2]))
state, timestep = jax.jit(env.step)(state.replace(agents=agents, food_items=food), jnp.array([5, 0]))
ours = state.food_items.eaten.tolist()
print("jumanji: taken", ours, "rewards", timestep.reward.tolist())

peer = gymnasium.make("Foraging-8x8-2p-2f-v3").unwrapped
peer.reset(seed=0)
peer.field[:] = 0
peer.field[3, 2] = peer.field[3, 4] = 2
for player, place, level in zip(peer.players, [(3, 3), (7, 7)], (2, 1)):
    player.position, player.level = place, level
peer._gen_valid_moves()
_, rewards, *_ = peer.step([5, 0])
theirs = [bool(peer.field[3, column] == 0) for column in (2, 4)]
print("lbforaging: taken", theirs, "rewards", rewards)
assert ours == [True, True] and np.allclose(timestep.reward, [1, 0]), "it changed"
assert sorted(theirs) == [False, True], "lbforaging changed"
PY
