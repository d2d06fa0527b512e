"""Why something is no element of a space."""

from typing import Any

import numpy as np

from envrax.spaces import Dict, Space, Tuple
from envrax.spaces.base import canonical, is_list, is_mapping
from envrax.testing.trees import plain, strong_form


def why_outside(space: Space, x: Any, path: str) -> tuple[str, str, str] | None:
    """
    Path, expected and got of the first leaf of `x` that is not as `space` has it, dtype included.

    Parameters
    ----------
    space : Space
        The space.
    x : Any
        The candidate.
    path : str
        Its name.

    Returns
    -------
    tuple or None
        None for an element.
    """
    if isinstance(space, Dict):
        if not is_mapping(x) or set(x) != set(space.keys()):
            keys = f"keys {sorted(map(str, x))}" if is_mapping(x) else strong_form(x)
            return path, f"to be a dict with keys {sorted(space.keys())}", keys
        found = (why_outside(child, x[key], f"{path}.{key}") for key, child in space.items())
        return next(filter(None, found), None)
    if isinstance(space, Tuple):
        if not is_list(x) or len(x) != len(space):
            got = f"a {type(x).__name__} of length {len(x)}" if is_list(x) else strong_form(x)
            return path, f"to be a tuple of length {len(space)}", got
        pairs = enumerate(zip(space, x, strict=True))
        found = (why_outside(child, item, f"{path}.{i}") for i, (child, item) in pairs)
        return next(filter(None, found), None)
    return _why_leaf_outside(space, x, path)


def _why_leaf_outside(space: Space, x: Any, path: str) -> tuple[str, str, str] | None:
    try:
        expected = f"{canonical(space.dtype)}[{','.join(map(str, space.shape))}]"
    except TypeError:  # a space of the user's own, which may nest as it likes
        expected = ""
    got = strong_form(x)
    if expected and got != expected:
        return path, f"to be {expected}", got
    if not bool(space.contains(x)):
        return path, f"to be in {space}", _span(x) if expected else got
    return None


def _span(x: Any) -> str:
    values = plain(x)
    if values.size == 1:
        return str(values.item())
    if np.issubdtype(values.dtype, np.floating) and np.isnan(values).any():
        return "NaN"
    return f"values from {values.min()} to {values.max()}"
