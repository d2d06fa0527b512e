#!/usr/bin/env bash
# What: what can be earned in AutoEncodeEasy, with 26 cards to recall at 1/26 each.
# Version: popgym-arcade 0.0.7 with jax 0.11.2, Python 3.12.
# Expected: a perfect player earns 1, as in POPGym, by the actions of the action space.
# Seen: the action space is 0 to 3, and the action that gives an answer is 4. One answer is given by
#   itself, all others never, so that an agent earns 1/26 at most. With action 4, which the space does not
#   have, the best return is 27/26: `done` is computed before the last card is counted, and in one more
#   step that card is paid again. infos["terminated"] is True one step before `done`.
# Output:
#   actions: 0 to 3
#   cards that are paid, by the action that answers: [1, 1, 1, 1]
#   with action 4: 27 of 26; (terminated, done) of the last steps: [(False, False), (True, False), (True, True)]
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet popgym-arcade==0.0.7 six==1.17.0 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import jax
import numpy as np
import popgym_arcade

env, params = popgym_arcade.make("AutoEncodeEasy")
key, cards, number = jax.random.key(0), 26, env.action_space(params).n
step = jax.jit(lambda state, action: env.step_env(key, state, action, params)[1:])


def play(answer):
    """Names each card with `answer`, and turns to the right suit with 2. The return, and the ends."""
    state = env.reset_env(key, params)[1]
    order = np.asarray(state.cards)[::-1]  # recalled from the last one shown to the first
    total, ends = 0.0, []
    while not (ends and ends[-1][1]) and len(ends) < 160:
        wanted = order[min(int(state.count), cards - 1)]
        asked = int(state.timestep) >= cards
        action = 0 if not asked else answer if state.default_action == wanted else 2
        state, reward, done, infos = step(state, action)
        total += float(reward)
        ends.append((bool(infos["terminated"]), bool(done)))
    return round(total * cards), ends[-3:]


print("actions: 0 to", number - 1)
inside = [play(answer)[0] for answer in range(number)]
print("cards that are paid, by the action that answers:", inside)
outside, ends = play(number)
print(f"with action {number}: {outside} of {cards}; (terminated, done) of the last steps: {ends}")
assert number == 4 and max(inside) <= 1, "it changed"
assert outside == 27 and ends == [(False, False), (True, False), (True, True)], "it changed"
PY
