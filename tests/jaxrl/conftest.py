"""The libraries warn when they are imported, and in their own code."""

import importlib
import warnings
from collections.abc import Iterator
from contextlib import suppress

import jax
import pytest

with warnings.catch_warnings(), suppress(ImportError):
    warnings.simplefilter("ignore")
    for name in ("brax.training.agents.ppo.train", "stoa", "rejax"):
        importlib.import_module(name)


@pytest.fixture(autouse=True)
def standard_promotion() -> Iterator[None]:
    """As in the trainers, which mix dtypes."""
    with jax.numpy_dtype_promotion("standard"):
        yield
