"""Spaces of both sides, compared by what they say: kind, shape, kind of dtype, bounds."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from envrax.testing.match.numbers import text

KINDS = {"i": "integers", "f": "floats", "b": "flags"}
INFINITE = 3e38  # a bound that stands for none


def space_differences(ours: Any, theirs: Any, name: str) -> list[str]:
    """Each fact that differs."""
    a: dict[str, Any] = dict(_facts(ours, name))
    b: dict[str, Any] = dict(_facts(theirs, name))
    pairs: list[Any] = [(fact, a.get(fact), b.get(fact)) for fact in dict.fromkeys([*a, *b])]
    return [f"{k} is {_text(x)}, not {_text(y)}" for k, x, y in pairs if not np.array_equal(x, y)]


def _facts(space: Any, name: str) -> Iterator[tuple[str, Any]]:
    children: Any = getattr(space, "spaces", None)
    if children is not None:
        items: Any = children.items() if hasattr(children, "items") else enumerate(children)
        for key, child in items:
            yield from _facts(child, f"{name}.{key}")
        return
    kind = np.dtype(space.dtype).kind.replace("u", "i")
    yield (
        name,
        f"a {type(space).__name__} of shape {tuple(space.shape)}, of {KINDS.get(kind, kind)}",
    )
    for bound in ("n", "nvec", "start", "low", "high"):
        if (x := getattr(space, bound, None)) is not None and (bound != "start" or np.any(x)):
            x = np.asarray(x, np.float32)
            x = np.where(abs(x) > INFINITE, np.sign(x) * np.inf, x)
            yield f"{name}.{bound}", np.broadcast_to(x, np.broadcast_shapes(x.shape, space.shape))


def _text(fact: Any) -> str:
    return text(fact) if isinstance(fact, np.ndarray) else str(fact)
