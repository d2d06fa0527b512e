#!/usr/bin/env bash
# What: the starts of Empty-Random.
# Version: navix 4.0.0 with jax 0.11.2, Python 3.12.
# Expected: as in MiniGrid, the agent is put on a free cell, which the goal is not.
# Seen: the goal is drawn like any other cell: one start of nine on the 5x5 grid is on it (also seen in
#   FourRooms and in Dynamic-Obstacles with random starts). The agent is not rewarded for being there,
#   and the episode goes on: it must leave and come back. The goal hides the agent in the observation, so
#   that neither its place nor its direction can be seen.
# Output:
#   11.6% of the starts are on the goal
#   the agent is in the observation: False
#   reward 0.0 ended False
#   reward 0.0 ended False
#   reward 0.0 ended False
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet navix==4.0.0 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import jax
import jax.numpy as jnp
import navix as nx
import numpy as np
from navix.entities import Entities, EntityIds

env = nx.make("Navix-Empty-Random-5x5-v0")
starts = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 900))
agent, goal = (
    np.asarray(starts.state.entities[name].position)[:, 0] for name in (Entities.PLAYER, Entities.GOAL)
)
on_goal = (agent == goal).all(1)
print(f"{on_goal.mean():.1%} of the starts are on the goal")
assert 0.07 < on_goal.mean() < 0.16, "it changed"
index = int(on_goal.argmax())
timestep = jax.tree.map(lambda x: x[index], starts)
shown = bool((timestep.observation[..., 0] == EntityIds.PLAYER).any())
print("the agent is in the observation:", shown)
assert not shown, "it changed"
for action in (6, 0, 0):  # done, left, left
    timestep = env.step(timestep, jnp.array(action))
    print("reward", float(timestep.reward), "ended", bool(timestep.is_done()))
    assert timestep.reward == 0 and not timestep.is_done(), "it changed"
PY
