"""A state is data: saved in the middle of an episode, it goes on bitwise in another process."""

from pathlib import Path
from typing import Any

import numpy as np
from helpers import assert_trees_equal

SHARED = """
import jax, numpy as np
from fakes import NestedEnv, PixelEnv, VectorConfig
from helpers import plain
import envrax

def five_deep():
    env = envrax.GrayscaleObservation(PixelEnv(VectorConfig(max_steps=4)))
    env = envrax.FrameStackObservation(envrax.ResizeObservation(env, h=6, w=5), n_stack=2)
    return envrax.RecordEpisodeStatistics(envrax.NormalizeObservation(env))

def actions(seed):
    sample = lambda space: space.sample(jax.random.key(seed))
    return {name: sample(space) for name, space in env.action_spaces.items()}

def go_on(state, path):
    seen = []
    for seed in range(10, 20):  # episodes of four and five steps: several begin
        obs, state, *rest = env.step(state, actions(seed))
        seen += map(plain, jax.tree.leaves((obs, state, rest)))
    np.savez(path, *seen)

env = envrax.MultiVecEnv({"b": envrax.VecEnv(five_deep(), 2), "a": envrax.VecEnv(NestedEnv(), 3)})
obs, state = env.reset(jax.random.key(0))
"""

FIRST = """
for seed in range(2):
    obs, state, *_ = env.step(state, actions(seed))
envrax.save("state.npz", state)
go_on(state, "first.npz")
"""

SECOND = """
state = envrax.load("state.npz", state)
go_on(state, "second.npz")
"""


def test_a_saved_state_goes_on(run_python: Any, tmp_path: Path) -> None:
    run_python(SHARED + FIRST)
    run_python(SHARED + SECOND)
    with np.load(tmp_path / "first.npz") as first, np.load(tmp_path / "second.npz") as second:
        assert len(first.files) > 100
        assert_trees_equal({**first}, {**second})
