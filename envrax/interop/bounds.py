"""The bounds of a `Box` as other libraries take them."""

from typing import Any

import numpy as np

from envrax.spaces import Box
from envrax.spaces.base import limits


def bounds_of(space: Box) -> tuple[Any, Any]:
    """The bounds as arrays of the dtype; an open side of integers ends where the dtype does."""
    if space.dtype.kind == "f":
        return np.asarray(space.low, space.dtype), np.asarray(space.high, space.dtype)
    least, most = limits(space.dtype)
    low = least if np.ndim(space.low) == 0 and space.low == -np.inf else space.low
    high = most if np.ndim(space.high) == 0 and space.high == np.inf else space.high
    return np.asarray(low, space.dtype), np.asarray(high, space.dtype)
