#!/usr/bin/env bash
# What: what `symbolic_first_person`, the partial view of an agent, shows.
# Version: navix 4.0.0 with jax 0.11.2, against minigrid 3.2.0, Python 3.12.
# Expected: as in MiniGrid, and in the words of the function, a cell behind a wall or a closed door is
#   hidden, and the cell of the agent shows what it carries.
# Seen: nothing is hidden: the goal shines through the wall, and rooms can be searched from outside. What
#   is carried is not shown, so that an agent cannot see whether it has the key. The categorical and the
#   RGB view do hide what is behind a wall.
# Output:
#   navix, symbolic: {'goal': True, 'key': False} - categorical sees the goal: False
#   MiniGrid: {'goal': False, 'key': True}
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet navix==4.0.0 jax==0.11.2 jaxlib==0.11.2 minigrid==3.2.0 gymnasium==1.3.0
venv/bin/python - <<'PY'
import gymnasium
import jax
import jax.numpy as jnp
import minigrid
import navix as nx
import numpy as np
from navix.entities import Entities, EntityIds
from navix.observations import categorical_first_person, symbolic_first_person

state = nx.make("Navix-DoorKey-8x8-v0").reset(jax.random.key(0)).state
wall = int(state.entities[Entities.WALL].position[0, 1])
# The agent stands at the wall and looks at it; the goal is in the other room. It carries the key.
player = state.get_player().replace(position=jnp.array([6, wall - 1]), direction=jnp.array(0))
key = state.entities[Entities.KEY]
state = state.set_player(player.replace(pocket=key.id[0]))
state = state.set_keys(key.replace(position=jnp.array([[0, -1]])))
view = np.asarray(symbolic_first_person(state))[..., 0]
sees = {"goal": bool((view == EntityIds.GOAL).any()), "key": bool((view == EntityIds.KEY).any())}
masked = bool((np.asarray(categorical_first_person(state)) == EntityIds.GOAL).any())
print("navix, symbolic:", sees, "- categorical sees the goal:", masked)

env = gymnasium.make("MiniGrid-DoorKey-8x8-v0").unwrapped
env.reset(seed=0)
thing, goal = minigrid.core.constants.OBJECT_TO_IDX["key"], minigrid.core.constants.OBJECT_TO_IDX["goal"]
wall = next(x for x in range(2, 7) if env.grid.get(x, 6) and env.grid.get(x, 6).type == "wall")
env.agent_pos, env.agent_dir, env.carrying = (wall - 1, 6), 0, minigrid.core.world_object.Key("yellow")
image = env.gen_obs()["image"][..., 0]
peer = {"goal": bool((image == goal).any()), "key": bool(image[3, 6] == thing)}
print("MiniGrid:", peer)
assert peer == {"goal": False, "key": True}, "MiniGrid changed"
assert sees == {"goal": True, "key": False} and not masked, "it changed"
PY
