#!/usr/bin/env bash
# What: a game of Enduro without any action, in JAXtari and in ALE.
# Version: jaxtari 0.2.0 with jax 0.11.2 against ale-py 0.12.1 (gymnasium 1.3.0), Python 3.12.
# Expected: the first day, in which 200 cars are to be passed, has as many frames as in ALE; at its end the game is
#   over for a player who has not passed them.
# Seen: it has 26,460 frames in place of 13,312. There is twice the time for the same 200 cars, and a step limit
#   that fits one is a day and a half, or half a day, of the other.
# Output:
#   ALE: over after 13312 frames
#   JAXtari: over after 26460 frames
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
import jaxtari.games.jax_enduro as game

ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
gymnasium.register_envs(ale_py)
env = gymnasium.make("ALE/Enduro-v5", frameskip=1, repeat_action_probability=0.0)
env.reset(seed=0)
in_ale, over = 0, False
while not over:
    _, _, terminated, truncated, _ = env.step(0)
    in_ale, over = in_ale + 1, terminated or truncated
print("ALE: over after", in_ale, "frames")

# It draws, and its sprites are not in the package.
game.EnduroRenderer = lambda *args, **kwargs: MagicMock(opponent_bottom_cutoff=0)
env = game.JaxEnduro()
_, state = env.reset(jax.random.PRNGKey(0))


def frame(carry, _):
    state, over, frames = carry
    _, following, _, done, _ = env.step(state, jnp.int32(0))
    state = jax.tree.map(lambda old, new: jnp.where(over, old, new), state, following)
    return (state, over | done, frames + ~over), None


(_, over, frames), _ = jax.lax.scan(frame, (state, jnp.bool_(False), jnp.int32(0)), length=30_000)
print("JAXtari: over after", int(frames), "frames")
assert over and in_ale == 13_312 and frames == 26_460, "it changed"
PY
