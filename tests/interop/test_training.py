# pyright: basic, reportMissingImports=false
"""
The example trainer on an id of each library, and on a fleet of four: one update, compiled.

Kinetix and MuJoCo Playground are left out: these two would take a third of the time of this file.
"""

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
from ppo_options import HOST, PRESETS, Options, parse

# Libraries warn when they are imported.
pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]

SIZES: dict[str, Any] = dict(n_steps=2, epochs=1, minibatches=1, hidden=4)
TINY = [f"--{name.replace('_', '-')}={value}" for name, value in SIZES.items()]
LEFT_OUT = "kinetix/", "playground/"
FLEET = (
    *("gymnax/CartPole-v1", "navix/Navix-Empty-5x5-v0"),
    *("jumanji/Snake-v1", "pgx/minatar-breakout"),
)


@pytest.fixture(autouse=True)
def standard_promotion() -> Iterator[None]:
    """Adam, as optax writes it, does not hold under strict promotion."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def learn(ppo: PPO, compile_counter: Any) -> tuple[Any, Any]:
    """
    States before and after an update, all in one program.

    It changes policy and value, to finite numbers.
    """

    def first_update(seed: Any) -> Any:
        start = ppo.init(seed)
        # Untrained, every value is 0: without a reward there would be nothing to learn.
        start = start._replace(params=jax.tree.map(lambda x: x + 0.1, start.params))
        return start, *ppo.update(start, None)

    traced = jax.jit(first_update).lower(0)
    with compile_counter() as compiled:
        before, after, ended = jax.block_until_ready(traced.compile()(0))
    assert compiled.count == 1
    assert ended.shape == (2, len(ppo.tasks)) and np.isfinite(ended).all()
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(after.params))
    for head in ("actor", "critic"):
        old, new = (x.params["params"][head]["Dense_2"]["kernel"] for x in (before, after))
        assert (old != new).any(), head
    return before, after


TRAINED = [name for name in PRESETS if not name.startswith(("classic/", HOST, *LEFT_OUT))]


@pytest.mark.parametrize("name", TRAINED)
def test_every_library_is_trained(name: str, compile_counter: Any) -> None:
    options, _ = parse([name, "--n-envs=6", *TINY])
    assert options == Options(**{"env": name, **PRESETS[name], **SIZES, "n_envs": 6})
    learn(trainer(options), compile_counter)


def test_there_is_a_preset_for_every_library() -> None:
    known = entry_points(group="envrax.suites").names
    assert {name.split("/")[0] for name in PRESETS if not name.startswith(HOST)} == known


def test_a_fleet_of_four_libraries_is_one_program(compile_counter: Any) -> None:
    ppo = multi_task.trainer([*FLEET, "--n-envs=8", *TINY])
    before, after = learn(ppo, compile_counter)
    assert set(after.at.env_state) == set(FLEET)
    for name, then, now in zip(
        FLEET, *(np.split(x.at.obs, 4) for x in (before, after)), strict=True
    ):
        assert (then != now).any(), name
