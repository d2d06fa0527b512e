# pyright: basic, reportMissingImports=false
"""The example trainer on an id of each library, and on a fleet of four: one update, compiled."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

import jax
import multi_task
import numpy as np
import pytest
from ppo import trainer
from ppo_algorithm import PPO
from ppo_options import PRESETS, Options, parse

# Libraries warn when they are imported.
pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]

SIZES: dict[str, Any] = dict(n_steps=2, epochs=1, minibatches=1, hidden=4)
TINY = [f"--{name.replace('_', '-')}={value}" for name, value in SIZES.items()]
LEFT_OUT = ()
FLEET = (
    *("gymnax/CartPole-v1", "navix/Navix-Empty-5x5-v0"),
    *("jumanji/Snake-v1", "pgx/minatar-breakout"),
)


@pytest.fixture(autouse=True)
def standard_promotion() -> Iterator[None]:
    """Adam, as optax writes it, does not hold under strict promotion."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def one_update(ppo: PPO, compile_counter: Any) -> tuple[Any, Any]:
    """Parameters before and after; the update is one program, called twice."""
    state = jax.jit(ppo.init)(0)
    traced = jax.jit(ppo.update).lower(state, None)
    with compile_counter() as compiled:
        update = traced.compile()
        first, _ = update(state, None)
        second, ended = jax.block_until_ready(update(first, None))
    assert compiled.count == 1
    assert ended.shape == (2, len(ppo.tasks)) and np.isfinite(ended).all()
    return state.params, second.params


def has_learned(before: Any, after: Any) -> bool:
    """Whether every array changed, and to finite numbers."""
    pairs = list(zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True))
    return all(np.isfinite(new).all() for _, new in pairs) and any(
        (old != new).any() for old, new in pairs
    )


TRAINED = [name for name in PRESETS if not name.startswith(("classic/", *LEFT_OUT))]


@pytest.mark.parametrize("name", TRAINED)
def test_every_library_is_trained(name: str, compile_counter: Any) -> None:
    options, _ = parse([name, "--n-envs=6", *TINY])
    assert options == Options(**{"env": name, **PRESETS[name], **SIZES, "n_envs": 6})
    ppo = trainer(options)
    assert has_learned(*one_update(ppo, compile_counter))


def test_there_is_a_preset_for_every_library() -> None:
    known = entry_points(group="envrax.suites").names
    assert {name.split("/")[0] for name in PRESETS} == known


def test_a_fleet_of_four_libraries_is_one_program(compile_counter: Any) -> None:
    ppo = multi_task.trainer([*FLEET, "--n-envs=8", *TINY])
    assert has_learned(*one_update(ppo, compile_counter))
