# pyright: basic, reportMissingImports=false
"""Both libraries: ids, wrong input, `check_env`, images, and the gymnax of another package."""

import importlib
from typing import Any

import jax
import numpy as np
import pytest
from interop.by_hand import check_ids_and_wrong_input, check_waivers, make

from envrax.error import MissingPackageError

# One of its ids, and one that is misspelt.
LIBRARIES = {
    "factoriax": ("MinerBootstrap-v1", "MinerBotstrap-v1"),
    "popgym_arcade": ("BreakoutEasy", "BreakoutEasi"),
}
# Factoriax, CountRecall and AutoEncode compile for most of a minute: `python -m benchmarks table`
# checks them.
CHECKED = [
    f"popgym_arcade/{name}" for name in ("BreakoutHard", "NavigatorEasy", "NoisyCartPoleEasy")
]


@pytest.mark.parametrize("library", LIBRARIES)
def test_ids_and_wrong_input(library: str) -> None:
    check_ids_and_wrong_input(library, *LIBRARIES[library])


@pytest.mark.parametrize("name", CHECKED)
def test_only_the_waived_rules_are_broken(name: str) -> None:
    check_waivers(make(name))


@pytest.mark.parametrize("name", ["factoriax/EasyRocket-v1", "popgym_arcade/NoisyCartPoleEasy"])
def test_an_image(name: str) -> None:
    env = make(name)
    image = env.render(jax.jit(env.reset)(jax.random.key(0))[1])
    assert image.dtype == np.uint8 and image.ndim == 3 and image.shape[-1] == 3
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 2


def test_popgym_arcade_refuses_another_gymnax(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = importlib.import_module("envrax.interop.popgym_arcade")
    environment = importlib.import_module("gymnax.environments.environment")
    monkeypatch.setattr(environment.Environment, "is_terminated", None, raising=False)
    with pytest.raises(MissingPackageError, match="stable-gymnax"):
        importlib.reload(module)
