"""Fixtures and hooks for the tests of libraries."""

import importlib
from typing import Any

import pytest


@pytest.fixture(scope="module")
def adapter(request: pytest.FixtureRequest) -> Any:
    """The adapter that a file tests, by its name. Libraries warn when they are imported."""
    library = request.module.__name__.rpartition("test_")[2]
    return importlib.import_module(f"envrax.interop.{library}")
