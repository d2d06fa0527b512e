"""What the tests of trainers share."""

from typing import Any

import jax
import pytest


@pytest.fixture
def transfers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `jax.device_get` was called with, so far."""
    seen, device_get = list[Any](), jax.device_get

    def counted(x: Any) -> Any:
        seen.append(x)
        return device_get(x)

    monkeypatch.setattr(jax, "device_get", counted)
    return seen
