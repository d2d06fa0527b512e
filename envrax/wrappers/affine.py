"""Affine maps from one Box to another."""

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax.spaces import Box, kind
from envrax.spaces.base import canonical


def target_box(wrapper: type, names: str, source: Box, low: Any, high: Any, advice: str) -> Box:
    """
    The Box with the bounds `low` and `high`, to which the elements of `source` are scaled.

    `advice` says what to do about infinite bounds.

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
                f"{target}. {advice}"
            )
    return target


def affine(wrapper: type, source: Box, target: Box) -> Callable[[Any], jax.Array]:
    """
    A function that maps `source.low` to `target.low` and `source.high` to `target.high`.

    An element with one finite bound is shifted, so that this bound matches. An element without
    finite bounds is unchanged. If both bounds of an element are equal, the result is `target.low`.

    Values inside `source` stay inside `target`, despite rounding. Values outside `source` are not
    clipped. If `target` is of integers, the result is the nearest one inside `target`.

    Bounds are those in JAX's dtype: without x64, float64 bounds end at the largest float32.

    Raises
    ------
    ValueError
        If the scale factor is too large for float32.
    """
    is_wide = np.float64 in (canonical(source.dtype), canonical(target.dtype))
    dtype = np.dtype(np.float64 if is_wide else np.float32)
    low, high = source.limits()
    new_low, new_high = target.limits().astype(np.float64)
    has_low, has_high = (np.isfinite(np.asarray(x, np.float64)) for x in (source.low, source.high))
    anchor = cast(Any, np.where(has_low, low, np.where(has_high, high, low.dtype.type(0))))
    new_anchor = np.where(has_low, new_low, np.where(has_high, new_high, 0.0)).astype(dtype)
    with np.errstate(all="ignore"):
        eighths = _eighths(high, low, np.dtype(np.float64))
        scale = np.where(high > low, (new_high - new_low) / eighths, 0.0)
        scale = np.where(has_low & has_high, scale, 8.0).astype(dtype)
    if not np.isfinite(scale).all():
        raise ValueError(
            f"{wrapper.__name__}: expected a scale factor from {source} to {target} that {dtype} "
            "can hold; got an infinite one."
        )
    new_low, new_high = (x.astype(dtype) for x in (new_low, new_high))

    def apply(x: Any) -> jax.Array:
        x = jnp.asarray(x).astype(low.dtype)
        scaled = _eighths(x, anchor, dtype) * scale + new_anchor
        inside = (x >= low) & (x <= high)
        result = jnp.where(inside, jnp.clip(scaled, new_low, new_high), scaled)
        result = jnp.where((x == high) & (low < high), new_high, result)
        if kind(target.dtype) != "integer":
            return result.astype(canonical(target.dtype))
        # The ends are those of the integers, which floats may round.
        least, most = target.limits()
        nearest = jnp.round(result).astype(canonical(target.dtype))
        nearest = jnp.where(x <= low, least, jnp.where(x >= high, most, nearest))
        return jnp.clip(nearest, least, most)

    return apply


def _eighths(x: Any, origin: Any, dtype: np.dtype[Any]) -> Any:
    """
    `(x - origin) / 8` in the float `dtype`.

    Integers are subtracted first and rounded then: one far from zero has more digits than a float.
    Floats are divided first, because their difference may overflow.
    """
    eighth = dtype.type(1 / 8)
    if kind(x.dtype) != "integer":
        return x.astype(dtype) * eighth - origin.astype(dtype) * eighth
    unsigned = np.dtype(f"uint{8 * x.dtype.itemsize}")  # holds any distance
    up = x.astype(unsigned) - origin.astype(unsigned)
    down = origin.astype(unsigned) - x.astype(unsigned)
    where: Any = jnp.where if isinstance(x, jax.Array) else np.where
    return where(x >= origin, up.astype(dtype), -down.astype(dtype)) * eighth
