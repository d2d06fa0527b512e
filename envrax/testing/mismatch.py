"""The first leaf at which a value does not fit its space, described for an error message."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from envrax.spaces import Box, Dict, Space, Tuple
from envrax.spaces.base import canonical, is_list, is_mapping
from envrax.testing.pytrees import describe, describe_as, to_numpy

# How far a float may exceed a bound, in units in its last place: XLA reorders float arithmetic.
MAX_UNITS = 4


class Mismatch(NamedTuple):
    """
    A leaf that does not fit its space.

    Attributes
    ----------
    path, expected, got : str
        The path of the leaf, and the two halves of the error message.
    dtype : str
        The right dtype, if only the dtype is wrong; else empty.
    """

    path: str
    expected: str
    got: str
    dtype: str = ""


def why_outside(space: Space, x: Any, path: str, *, rounded: bool = False) -> Mismatch | None:
    """
    The first leaf of `x` that is not in `space`. Its dtype must be exactly that of the space.

    Parameters
    ----------
    space : Space
        The space.
    x : Any
        The candidate.
    path : str
        The name of `x`.
    rounded : bool, default False
        Whether floats may exceed a bound by a few units in its last place.

    Returns
    -------
    Mismatch or None
        None if `x` is an element.
    """
    return first_mismatch(space, x, path, partial(_why_leaf_outside, rounded))


def first_mismatch(
    space: Space,
    x: Any,
    path: str,
    check_leaf: Callable[[Space, Any, str], Mismatch | None],
    *,
    optional: bool = False,
) -> Mismatch | None:
    """
    The first leaf of `x` that a check rejects.

    Parameters
    ----------
    space : Space
        The space, which may be nested.
    x : Any
        The pytree, which should have the structure of the space.
    path : str
        The name of `x`.
    check_leaf : callable
        From a space, a leaf and its path to a mismatch, or None.
    optional : bool, default False
        Whether None may stand for any part of `x`.
    """
    if optional and x is None:
        return None
    if isinstance(space, Dict):
        if not is_mapping(x) or set(x) != set(space.keys()):
            keys = f"keys {sorted(map(str, x))}" if is_mapping(x) else describe(x)
            return Mismatch(path, f"to be a dict with keys {sorted(space.keys())}", keys)
        parts = [(child, x[key], f"{path}.{key}") for key, child in space.items()]
    elif isinstance(space, Tuple):
        if not is_list(x) or len(x) != len(space):
            got = f"a {type(x).__name__} of length {len(x)}" if is_list(x) else describe(x)
            return Mismatch(path, f"to be a tuple of length {len(space)}", got)
        pairs = enumerate(zip(space, x, strict=True))
        parts = [(child, item, f"{path}.{i}") for i, (child, item) in pairs]
    else:
        return check_leaf(space, x, path)
    found = (first_mismatch(*part, check_leaf, optional=optional) for part in parts)
    return next(filter(None, found), None)


def _why_leaf_outside(rounded: bool, space: Space, x: Any, path: str) -> Mismatch | None:
    got = describe(x)
    try:
        dtype = canonical(space.dtype)
    except TypeError:  # a user's own space may nest in its own way
        return None if bool(space.contains(x)) else Mismatch(path, f"to be in {space}", got)
    expected = describe_as(dtype, space.shape)
    if got != expected:
        only_dtype = got.partition("[")[2] == expected.partition("[")[2]
        return Mismatch(path, f"to be {expected}", got, str(dtype) if only_dtype else "")
    inside = bool(space.contains(x)) or (rounded and _is_within_rounding(space, x))
    return None if inside else Mismatch(path, f"to be in {space}", _value_range(x))


def _is_within_rounding(space: Space, x: Any) -> bool:
    """Whether floats exceed the bounds of a `Box` at most by rounding."""
    if not isinstance(space, Box) or not jnp.issubdtype(space.dtype, jnp.floating):
        return False
    values, low, high = (np.asarray(v, np.float64) for v in (to_numpy(x), space.low, space.high))
    eps = MAX_UNITS * float(jnp.finfo(canonical(space.dtype)).eps)

    def allowed(bound: np.ndarray, other: np.ndarray) -> np.ndarray:
        # A bound of 0 has no unit: use that of the other bound, but at most that of 1, which is the
        # rounding error of `1 - x`.
        unit = np.where(bound == 0, np.where(np.isinf(other), 0, np.minimum(abs(other), 1)), bound)
        return eps * np.where(np.isinf(unit), 0, abs(unit))

    below = allowed(low, high)
    above = allowed(high, low)
    return bool(np.all((values >= low - below) & (values <= high + above)))


def _value_range(x: Any) -> str:
    values = to_numpy(x)
    if values.size == 1:
        return str(values.item())
    if np.issubdtype(values.dtype, np.floating) and np.isnan(values).any():
        return "NaN"
    return f"values from {values.min()} to {values.max()}"
