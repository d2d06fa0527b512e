"""`register_for_export`: a program that another process calls, without the environment."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envrax
from envrax import RecordEpisodeStatistics, VecEnv, wrappers

MINE = """
from typing import Any, NamedTuple

import chex

from envrax.testing import CountingEnv
from envrax.testing.fakes import FakeState


class Seen(NamedTuple):
    number: Any


@chex.dataclass
class MyState(FakeState):
    seen: Any = None


class MyEnv(CountingEnv):
    def reset(self, rng):
        obs, state = super().reset(rng)
        return obs, MyState(**{**state, "seen": Seen(state.number)})
"""

OTHER = """
import sys
from pathlib import Path

import jax
import numpy as np

import envrax
import mine

jax.config.update("jax_enable_x64", False)
envrax.register_for_export(mine.MyState, mine.Seen)
begin, play = (jax.export.deserialize(Path(x).read_bytes()) for x in ("begin.jax", "play.jax"))
at, steps = play.call(begin.call(jax.random.key(0)))
assert "envrax.testing.fakes.CountingEnv" not in sys.modules
assert type(at) is envrax.Rollout and type(at.env_state.env_state.env_state.seen) is mine.Seen
np.savez("found.npz", *[np.asarray(jax.random.key_data(x) if jax.dtypes.issubdtype(x.dtype,
    jax.dtypes.prng_key) else x) for x in jax.tree.leaves((at, steps))])
"""


def test_a_rollout_is_called_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_python: Callable[..., str]
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    import mine  # type: ignore[import-not-found]

    env: Any = VecEnv(RecordEpisodeStatistics(mine.MyEnv()), 4)
    env = wrappers.vector.NormalizeReward(env)
    begin = jax.jit(lambda rng: envrax.start(env, rng))
    play = jax.jit(lambda at: envrax.rollout(env, None, at, 12))
    at = begin(jax.random.key(0))
    programs = {"begin": jax.export.export(begin)(jax.random.key(0))}
    programs["play"] = jax.export.export(play)(at)
    envrax.register_for_export()
    with pytest.raises(ValueError, match="unregistered type `<class 'mine"):
        programs["play"].serialize()
    for _ in range(2):  # it is safe to repeat
        envrax.register_for_export(mine.MyState, mine.Seen)
    for name, program in programs.items():
        (tmp_path / f"{name}.jax").write_bytes(program.serialize())
    run_python(OTHER)
    found = np.load(tmp_path / "found.npz").values()
    wanted = jax.tree.leaves(play(at))
    assert len(wanted) > 20 and bool(play(at)[1].done.any())
    for x, y in zip(found, wanted, strict=True):
        is_key = jnp.issubdtype(y.dtype, jax.dtypes.prng_key)
        np.testing.assert_array_equal(x, jax.random.key_data(y) if is_key else y)


def test_a_class_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match=r"@chex.dataclass.*NamedTuples; got <class 'dict'>"):
        envrax.register_for_export(dict)
