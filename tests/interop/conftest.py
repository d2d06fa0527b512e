"""Fixtures and hooks for the tests of libraries."""

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from interop.sprites import installed_sprites


@pytest.fixture(scope="module")
def adapter(request: pytest.FixtureRequest) -> Any:
    """The adapter that a file tests, by its name. Libraries warn when they are imported."""
    library = request.module.__name__.rpartition("test_")[2]
    return importlib.import_module(f"envrax.interop.{library}")


@pytest.fixture(scope="session")
def sprites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Rectangles, where JAXtari looks for its sprites."""
    with installed_sprites(tmp_path_factory.mktemp("data")):
        yield
