#!/usr/bin/env bash
# What: an info that is a Python list of five numbers, in an episode of four steps, which has five infos.
# Version: minari 0.5.4 with gymnasium 1.4.0, h5py 3.16.0, pyarrow 26.0.1 and jax 0.10.2, Python 3.11.
# Expected: five rows, one for each info, as of a NumPy array with the same numbers; or an error in `reset`.
# Seen: the collector takes a list for a structure of five infos, and keeps the numbers in the order of the
#   list. Arrow then gives the transposed matrix: row t has number t of all steps. With another number of
#   steps, and always in HDF5, the last step of the episode raises an error about shapes, after all was
#   played. `np.asarray` in the info repairs it.
# Output:
#   arrow, 4 steps, array: [0.0, 0.1, 0.2, 0.3, 0.4] are the numbers of the first info
#   arrow, 4 steps, list: [0.0, 1.0, 2.0, 3.0, 4.0] are the numbers of the first info
#   arrow, 3 steps, list: ValueError in step 3: Arrays were not all the same length: 5 vs 4
#   hdf5, 4 steps, list: ValueError in step 4: 'maxshape' must have same rank as dataset shape
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet minari==0.5.4 gymnasium==1.4.0 h5py==3.16.0 pyarrow==26.0.1 pillow jax==0.10.2 jaxlib==0.10.2
export MINARI_DATASETS_PATH=$PWD/data
venv/bin/python -W ignore - <<'PY'
import gymnasium
import minari
import numpy as np


class Env(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 9, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, steps, kind):
        self.steps, self.kind = steps, kind

    def seen(self):
        number = [self.t + place / 10 for place in range(5)]
        return np.zeros(1, np.float32), {"five": self.kind(number)}

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.seen()

    def step(self, action):
        self.t += 1
        obs, info = self.seen()
        return obs, 0.0, self.t == self.steps, False, info


def first(back_end, steps, kind):
    env = minari.DataCollector(Env(steps, kind), record_infos=True, data_format=back_end)
    env.reset(seed=0)
    try:
        for step in range(1, steps + 1):
            env.step(0)
    except ValueError as error:
        return f"ValueError in step {step}: {error}"
    data = env.create_dataset(f"five/{back_end}-{kind.__name__}-v0")
    row = next(iter(data.iterate_episodes())).infos["five"][0]
    return f"{np.round(row, 1).tolist()} are the numbers of the first info"


print("arrow, 4 steps, array:", right := first("arrow", 4, np.array))
print("arrow, 4 steps, list:", wrong := first("arrow", 4, list))
print("arrow, 3 steps, list:", first("arrow", 3, list))
print("hdf5, 4 steps, list:", first("hdf5", 4, list))
assert wrong != right, "it changed: a list is an array"
PY
