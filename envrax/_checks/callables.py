"""Which parameters a function has."""

import inspect
from typing import Any


def accepts(function: Any, names: tuple[str, ...], given: int) -> tuple[str, ...]:
    """Which of `names` are parameters after the first `given`, and not bound already."""
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return ()
    free = [p.name for i, p in enumerate(parameters) if i >= given or p.kind is p.KEYWORD_ONLY]
    bound = getattr(function, "keywords", {})  # a `partial` lists them too
    return tuple(name for name in names if name in free and name not in bound)
