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
    The Box with the bounds `low` and `high`, to which the elements of `source` are scaled.

    Raises
    ------
    ValueError
        If the new bounds do not fit the shape of `source`, or are not infinite exactly where the
        bounds of `source` are.
    """
    dtype = source.dtype if kind(source.dtype) == "float" else np.dtype(np.float32)
    expected = f"{wrapper.__name__}: expected {names}"
    try:
        target = Box(low, high, source.shape, dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{expected} to be bounds for {source}; got an error: {error}") from error
    for new_bound, old_bound in ((target.low, source.low), (target.high, source.high)):
        new_is_infinite = np.isinf(np.broadcast_to(new_bound, source.shape))
        old_is_infinite = np.isinf(np.broadcast_to(old_bound, source.shape).astype(np.float64))
        if (new_is_infinite != old_is_infinite).any():
            raise ValueError(
                f"{expected} to be infinite exactly where the bounds of {source} are; got "
                f"{target}. To remove bounds, wrap this wrapper in one that does, such as "
                "`ClipAction`."
            )
    return target


def affine(wrapper: type, source: Box, target: Box) -> Callable[[Any], jax.Array]:
    """
    A function that maps `source.low` to `target.low` and `source.high` to `target.high`.

    An element with one finite bound is shifted, so that this bound matches. An element without
    finite bounds is unchanged. If both bounds of an element are equal, the result is `target.low`.

    Values inside `source` stay inside `target`, despite rounding. Values outside `source` are not
    clipped.

    Raises
    ------
    ValueError
        If the scale factor is too large for float32.
    """
    dtype = canonical(np.float64 if target.dtype == np.float64 else np.float32)
    low, high, new_low, new_high = (
        np.asarray(bound, np.float64)
        for bound in (source.low, source.high, target.low, target.high)
    )
    has_low = np.isfinite(low)
    has_high = np.isfinite(high)
    anchor = np.where(has_low, low, np.where(has_high, high, 0.0)).astype(dtype)
    new_anchor = np.where(has_low, new_low, np.where(has_high, new_high, 0.0)).astype(dtype)
    with np.errstate(all="ignore"):
        # Computed with eighths, because `high - low` may overflow in float32.
        scale = np.where(high > low, (new_high - new_low) / (high / 8 - low / 8), 0.0)
        scale = np.where(has_low & has_high, scale, 8.0).astype(dtype)
    if not np.isfinite(scale).all():
        raise ValueError(
            f"{wrapper.__name__}: expected a scale factor from {source} to {target} that {dtype} "
            "can hold; got an infinite one."
        )
    low, high, new_low, new_high = (x.astype(dtype) for x in (low, high, new_low, new_high))
    eighth = dtype.type(1 / 8)

    def apply(x: Any) -> jax.Array:
        x = jnp.asarray(x).astype(dtype)
        scaled = (x * eighth - anchor * eighth) * scale + new_anchor
        inside = (x >= low) & (x <= high)
        result = jnp.where(inside, jnp.clip(scaled, new_low, new_high), scaled)
        result = jnp.where((x == high) & (low < high), new_high, result)
        return result.astype(canonical(target.dtype))

    return apply
