"""Affine maps from one Box to another."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.spaces import Box, kind
from envrax.spaces.base import canonical


def target_box(wrapper: type, names: str, source: Box, low: Any, high: Any) -> Box:
    """
    The Box from `low` to `high` that the elements of `source` are scaled to.

    Raises
    ------
    ValueError
        If these bounds do not fit the shape of `source`, or are not infinite exactly where those of
        `source` are.
    """
    dtype = source.dtype if kind(source.dtype) == "float" else np.dtype(np.float32)
    expected = f"{wrapper.__name__}: expected {names}"
    try:
        target = Box(low, high, source.shape, dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{expected} to be bounds for {source}; got an error: {error}") from error
    for ours, theirs in ((target.low, source.low), (target.high, source.high)):
        ours, theirs = (np.broadcast_to(x, source.shape) for x in (ours, theirs))
        if (np.isinf(ours) != np.isinf(theirs.astype(np.float64))).any():
            raise ValueError(
                f"{expected} to be infinite where {source} is, and only there; got {target}. Put "
                "a wrapper that removes bounds, such as `ClipAction`, around this one."
            )
    return target


def affine(wrapper: type, source: Box, target: Box) -> Callable[[Any], jax.Array]:
    """
    The map that takes `source.low` to `target.low` and `source.high` to `target.high`.

    Where `source` is open on one side it shifts by the other bound, and where it is open on both it
    changes nothing. Where its bounds are equal, the result is `target.low`. Elements of `source`
    become elements of `target`, whatever is rounded; others lie outside of it.

    Raises
    ------
    ValueError
        If the factor is too large for float32.
    """
    dtype = canonical(np.float64 if target.dtype == np.float64 else np.float32)
    low, high, new_low, new_high = (
        np.asarray(bound, np.float64)
        for bound in (source.low, source.high, target.low, target.high)
    )
    begins = np.isfinite(low)
    ends = np.isfinite(high)
    anchor = np.where(begins, low, np.where(ends, high, 0.0)).astype(dtype)
    new_anchor = np.where(begins, new_low, np.where(ends, new_high, 0.0)).astype(dtype)
    with np.errstate(all="ignore"):
        # Eighths, because float32 may not hold `high - low`.
        scale = np.where(high > low, (new_high - new_low) / (high / 8 - low / 8), 0.0)
        scale = np.where(begins & ends, scale, 8.0).astype(dtype)
    if not np.isfinite(scale).all():
        raise ValueError(
            f"{wrapper.__name__}: expected a factor from {source} to {target} that {dtype} can "
            "hold; got an infinite one."
        )
    low, high, new_low, new_high = (x.astype(dtype) for x in (low, high, new_low, new_high))
    eighth = dtype.type(1 / 8)

    def apply(x: Any) -> jax.Array:
        x = jnp.asarray(x).astype(dtype)
        scaled = (x * eighth - anchor * eighth) * scale + new_anchor
        inside = (x >= low) & (x <= high)
        kept = jnp.where(inside, jnp.clip(scaled, new_low, new_high), scaled)
        kept = jnp.where((x == high) & (low < high), new_high, kept)
        return kept.astype(canonical(target.dtype))

    return apply
