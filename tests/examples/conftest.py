"""What the tests of the trainers share."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import pytest

import envrax


@pytest.fixture
def standard_promotion() -> Iterator[None]:
    """Adam, as optax writes it, does not hold under strict promotion."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture
def registered() -> Iterator[Callable[..., str]]:
    """`registered(cls, config)`: a name that is known to envrax for the length of the test."""
    names = list[str]()

    def register(cls: Any, config: Any) -> str:
        names.append(f"test/{cls.__name__}-v{len(names)}")
        envrax.register(names[-1], cls, config)
        return names[-1]

    yield register
    for name in names:
        envrax.unregister(name)
