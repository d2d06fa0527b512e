"""Collected only where `-m` asks for `trainers`, since they import the libraries."""

import re
from pathlib import Path
from typing import Any

import jax
import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    asked = re.sub(r"not\s+trainers", "", config.getoption("markexpr"))
    if collection_path.name.startswith("test_") and "trainers" not in asked:
        return True
    return None


@pytest.fixture
def transfers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `jax.device_get` was called with, so far."""
    seen, device_get = list[Any](), jax.device_get

    def counted(x: Any) -> Any:
        seen.append(x)
        return device_get(x)

    monkeypatch.setattr(jax, "device_get", counted)
    return seen
