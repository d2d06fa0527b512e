# pyright: basic, reportMissingImports=false
"""
The example trainers on an id of each library, and on a fleet of three: one update, compiled.

Kinetix and MuJoCo Playground are left out: these two would take a third of the time of this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from multi_task import MultiTaskPPO
from ppo import PPO, Options

# Libraries warn when they are imported.
pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]

NAMES = (
    "gymnax/Breakout-MinAtar",
    "brax/inverted_pendulum",
    "jumanji/Snake-v1",
    "navix/Navix-Empty-5x5-v0",
    "craftax/Craftax-Classic-Symbolic-v1",
    "pgx/minatar-breakout",
    "xminigrid/MiniGrid-Empty-5x5",
)
FLEET = ["gymnax/CartPole-v1", "navix/Navix-Empty-5x5-v0", "jumanji/Snake-v1"]


@pytest.fixture(autouse=True)
def standard_promotion() -> Iterator[None]:
    """Adam, as optax writes it, does not hold under strict promotion."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def learn(trainer: Any, compile_counter: Any) -> Any:
    """States before and after an update, all in one program; parameters change, and are finite."""

    def changed(params: Any) -> Any:
        return jax.tree.map(lambda x: x + 0.1, params)

    def first_update(seed: Any) -> Any:
        # Untrained, every value is 0: without a reward there would be nothing to learn.
        first, *others = trainer.init(seed)
        if isinstance(trainer, PPO):
            first = first._replace(policy_state=changed(first.policy_state))
        else:
            first = changed(first)
        return (first, *others), trainer.update((first, *others), None)

    traced = jax.jit(first_update).lower(0)
    with compile_counter() as compiled:
        before, (after, ended) = jax.block_until_ready(traced.compile()(0))
    assert compiled.count == 1
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(ended))
    return before, after


def require_learned(before: Any, after: Any) -> None:
    pairs = list(zip(*map(jax.tree.leaves, (before, after)), strict=True))
    assert all(np.isfinite(new).all() for _, new in pairs)
    assert any((old != new).any() for old, new in pairs)


@pytest.mark.parametrize("name", NAMES)
def test_every_library_is_trained(name: str, compile_counter: Any) -> None:
    sizes: Any = dict(n_envs=6, n_steps=2, epochs=1, minibatches=1, hidden=4, entropy_weight=0.1)
    before, after = learn(PPO(Options(name, **sizes)), compile_counter)
    require_learned(before[0].policy_state, after[0].policy_state)


def test_a_fleet_of_libraries_is_one_program(compile_counter: Any) -> None:
    before, after = learn(MultiTaskPPO(FLEET, 1, hidden=4), compile_counter)
    require_learned(before[0], after[0])
    assert set(after[3]) == set(FLEET)
