"""A state is data: saved in the middle of an episode, it goes on bitwise in another process."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

SHARED = """
import sys
from pathlib import Path

import jax, numpy as np
from fakes import CoinEnv, NestedEnv, PixelEnv, VectorConfig
from helpers import plain
import envrax

def five_deep():
    env = envrax.GrayscaleObservation(PixelEnv(VectorConfig(max_steps=4)))
    env = envrax.FrameStackObservation(envrax.ResizeObservation(env, h=6, w=5), n_stack=2)
    return envrax.RecordEpisodeStatistics(envrax.NormalizeObservation(env))

def make():
    if WHAT == "vec_env":
        return envrax.VecEnv(five_deep(), 3)
    other = CoinEnv() if HOW == "orbax" else NestedEnv()  # Orbax takes no array of size zero
    members = {"b": envrax.VecEnv(five_deep(), 2), "a": envrax.VecEnv(other, 3)}
    return envrax.MultiVecEnv(members)

def actions(env, seed):
    spaces = env.action_spaces if WHAT == "fleet" else env.action_space
    sample = lambda space: space.sample(jax.random.key(seed))
    return {k: sample(v) for k, v in spaces.items()} if WHAT == "fleet" else sample(spaces)

def go_on(env, state, path):
    seen = []
    for seed in range(10, 20):  # episodes of four and five steps: several begin
        obs, state, *rest = env.step(state, actions(env, seed))
        seen += map(plain, jax.tree.leaves((obs, state, rest)))
    np.savez(path, *seen)

env = make()
obs, state = env.reset(getattr(jax.random, KEY)(0))
"""

FIRST = """
for seed in range(2):
    obs, state, *_ = env.step(state, actions(env, seed))
if HOW == "numpy":
    envrax.save("state.npz", state)
else:
    import orbax.checkpoint as ocp
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(Path("checkpoint").absolute(), state)
        checkpointer.wait_until_finished()
go_on(env, state, "first.npz")
"""

SECOND = """
if HOW == "numpy":
    state = envrax.load("state.npz", state)
else:
    import orbax.checkpoint as ocp
    with ocp.StandardCheckpointer() as checkpointer:
        state = checkpointer.restore(Path("checkpoint").absolute(), state)
go_on(env, state, "second.npz")
"""


@pytest.mark.parametrize(
    ("what", "how", "key"),
    [
        ("vec_env", "numpy", "key"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("vec_env", "numpy", "PRNGKey"),
                ("fleet", "numpy", "key"),
                ("vec_env", "orbax", "key"),
                ("vec_env", "orbax", "PRNGKey"),
                ("fleet", "orbax", "key"),
            )
        ),
    ],
)
def test_a_saved_state_goes_on(
    what: str, how: str, key: str, run_python: Any, tmp_path: Path
) -> None:
    given = f"WHAT, HOW, KEY = {what!r}, {how!r}, {key!r}\n"
    run_python(given + SHARED + FIRST)
    run_python(given + SHARED + SECOND)
    with np.load(tmp_path / "first.npz") as first, np.load(tmp_path / "second.npz") as second:
        assert len(first.files) == len(second.files) > 100
        for name in first.files:
            assert first[name].dtype == second[name].dtype
            np.testing.assert_array_equal(first[name], second[name])
