"""Collected only where `-m` asks for `trainers`, since they import the libraries."""

import re
from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    asked = re.sub(r"not\s+trainers", "", config.getoption("markexpr"))
    if collection_path.name.startswith("test_") and "trainers" not in asked:
        return True
    return None
