"""Elements of spaces as Gymnasium has them."""

from typing import Any

from envrax.spaces import Dict, Discrete, Space, Tuple


def with_ints(space: Space, x: Any) -> Any:
    """An element with an int for each `Discrete`, which can be a key of a dict of values."""
    if isinstance(space, Discrete):
        return x.item()
    if isinstance(space, Dict):
        return {name: with_ints(child, x[name]) for name, child in space.spaces.items()}
    if isinstance(space, Tuple):
        return tuple(with_ints(*pair) for pair in zip(space.spaces, x, strict=True))
    return x
