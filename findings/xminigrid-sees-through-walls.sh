#!/usr/bin/env bash
# What: the observations of MiniGrid-UnlockPickUp: the object lies in the next room, behind a locked door.
# Version: xminigrid 0.9.3 with jax 0.11.2, Python 3.12; minigrid 3.2.0 beside it.
# Expected: as in MiniGrid, from which these worlds come, a view ends at walls and closed doors, and the
#   cell of the agent shows what it carries.
# Seen: every view shows all its cells, also in FourRooms and in the XLand worlds: the library has the
#   masked view, and no environment calls it. What is carried is in no observation: with the key in the
#   pocket and with the pocket empty the agent sees the same. Scores are not those of MiniGrid.
# Output:
#   first views that show the object behind the locked door: MiniGrid 0%, XLand-MiniGrid 27%
#   the view tells of a key in the pocket: MiniGrid True, XLand-MiniGrid False
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet xminigrid==0.9.3 minigrid==3.2.0 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import gymnasium
import jax
import jax.numpy as jnp
import minigrid  # noqa: F401
import numpy as np
import xminigrid
from minigrid.core.constants import OBJECT_TO_IDX
from minigrid.core.world_object import Key
from xminigrid.core.constants import TILES_REGISTRY, Colors, Tiles

GAMES, TURN = 200, 1
old = gymnasium.make("MiniGrid-UnlockPickup-v0").unwrapped
seen_old = [(old.reset(seed=i)[0]["image"][..., 0] == OBJECT_TO_IDX["box"]).any() for i in range(GAMES)]
old.carrying = None
before = old.gen_obs()["image"]
old.carrying = Key("red")
told_old = bool((old.gen_obs()["image"] != before).any())

new, params = xminigrid.make("MiniGrid-UnlockPickUp")
starts = jax.jit(jax.vmap(lambda key: new.reset(params, key)))(jax.random.split(jax.random.key(0), GAMES))
things = jnp.array([Tiles.BALL, Tiles.SQUARE, Tiles.PYRAMID, Tiles.STAR, Tiles.HEX])
seen_new = jnp.isin(starts.observation[..., 0], things).any((1, 2))
start = jax.tree.map(lambda x: x[0], starts)


@jax.jit
def view(pocket):
    agent = start.state.agent.replace(pocket=pocket)
    return new.step(params, start.replace(state=start.state.replace(agent=agent)), TURN).observation


empty, key = view(start.state.agent.pocket), view(TILES_REGISTRY[Tiles.KEY, Colors.RED])
told_new = bool((empty != key).any())
print(
    "first views that show the object behind the locked door:"
    f" MiniGrid {np.mean(seen_old):.0%}, XLand-MiniGrid {seen_new.mean():.0%}"
)
print(f"the view tells of a key in the pocket: MiniGrid {told_old}, XLand-MiniGrid {told_new}")
assert not any(seen_old) and seen_new.any() and told_old and not told_new, "it changed"
PY
