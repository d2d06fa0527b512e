#!/usr/bin/env bash
# What: whether an agent of Fetch can know which of the two objects it is to fetch.
# Version: navix 4.0.0 with jax 0.11.2, Python 3.12.
# Expected: as in MiniGrid, whose observation has a mission ("get the red key"), the target is part of
#   what the agent observes.
# Seen: the target is in the state only. Of the six observation functions none shows it, and a timestep
#   has no other field for it. Any policy of the observations fetches the wrong one half of the time, in
#   the tasks with three objects two times of three. So too in GoToObject, GoToDoor and PutNear. A score
#   of 0.5 is perfect.
# Output:
#   symbolic: the same for either target: True
#   symbolic_first_person: the same for either target: True
#   categorical: the same for either target: True
#   categorical_first_person: the same for either target: True
#   rgb: the same for either target: True
#   rgb_first_person: the same for either target: True
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet navix==4.0.0 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import jax
import navix as nx
import numpy as np
from navix import observations
from navix.entities import Entities

timestep = nx.make("Navix-Fetch-5x5-N2-v0").reset(jax.random.key(0))
state, (target,) = timestep.state, timestep.state.mission
things = [state.entities[name] for name in (Entities.KEY, Entities.BALL)]
(other,) = [t for t in things if not np.array_equal(t.position[0], target.position)]
swapped = target.replace(position=other.position[0], colour=other.colour[0])
for name in ("symbolic", "categorical", "rgb"):
    for function in (name, name + "_first_person"):
        look = getattr(observations, function)
        same = np.array_equal(look(state), look(state.replace(mission=(swapped,))))
        print(f"{function}: the same for either target: {same}")
        assert same, "it changed: the target is observed"
fields = set(timestep.__dataclass_fields__)
assert fields == {"t", "observation", "action", "reward", "step_type", "state", "info"}, fields
PY
