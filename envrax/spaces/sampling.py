"""Uniform draws between inclusive bounds, elementwise, for every dtype a space may have."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def draw_integers(
    rng: jax.Array, shape: tuple[int, ...], low: Any, high: Any, dtype: np.dtype[Any]
) -> jax.Array:
    """Draw integers or bools, `low` and `high` included, full ranges included.

    ``jax.random.randint`` cannot end at the dtype's maximum, and for spans near ``2**32`` some of
    its values are twice as likely as others. Here ``floor(word * span / 2**bits)`` is taken with
    a word so much longer than the span that the bias is below ``2**-24``.
    """
    bits = max(32, 8 * dtype.itemsize)
    word = np.dtype(f"uint{bits}")
    with np.errstate(over="ignore"):
        start = low.astype(word)
        span = np.asarray(high.astype(word) - start + word.type(1))  # 0 stands for 2**bits
    short = bool(((span > 0) & (span <= 256)).all())
    words = jax.random.bits(rng, (1 if short else 2, *shape), word)
    offset = _upper_half(words[0], span, bits // 2)
    if not short:
        carried = _upper_half(words[1], span, bits // 2)
        overflow = words[0] * span + carried < carried
        offset = jnp.where(span == 0, words[0], offset + overflow.astype(word))
    return lax.convert_element_type(start + offset, dtype)


def _upper_half(a: jax.Array, b: Any, half: int) -> jax.Array:
    """The upper half of the double-width product of two unsigned words of ``2 * half`` bits."""
    mask = (1 << half) - 1
    low_a, high_a, low_b, high_b = a & mask, a >> half, b & mask, b >> half
    middle = high_a * low_b + (low_a * low_b >> half)
    return high_a * high_b + (middle >> half) + (low_a * high_b + (middle & mask) >> half)


def draw_floats(
    rng: jax.Array, shape: tuple[int, ...], low: Any, high: Any, dtype: np.dtype[Any]
) -> jax.Array:
    """Draw floats; an infinite bound is no bound. All lie within the finite range of `dtype`."""
    wide = dtype if dtype.itemsize >= 4 else np.dtype(np.float32)
    below, above = np.isfinite(low), np.isfinite(high)
    # The bounds of the other cases are replaced, so that no discarded lane computes a NaN.
    floor = np.where(below, low, 0).astype(wide)
    ceiling = np.where(above, high, 0).astype(wide)

    def between(key: jax.Array) -> jax.Array:
        u = jax.random.uniform(key, shape, wide)
        return floor * (1 - u) + ceiling * u  # `high - low` could overflow

    cases = [
        (below & above, between),
        (below & ~above, lambda key: floor + jax.random.exponential(key, shape, wide)),
        (~below & above, lambda key: ceiling - jax.random.exponential(key, shape, wide)),
        (~below & ~above, lambda key: jax.random.normal(key, shape, wide)),
    ]
    cases = [(mask, draw) for mask, draw in cases if mask.any()]
    keys = [rng] if len(cases) == 1 else list(jax.random.split(rng, len(cases)))
    values = cases[0][1](keys[0])
    for (mask, draw), key in zip(cases[1:], keys[1:], strict=True):
        values = jnp.where(mask, draw(key), values)
    limits = jnp.finfo(dtype)
    least = np.maximum(low.astype(wide), wide.type(limits.min))
    most = np.minimum(high.astype(wide), wide.type(limits.max))
    return lax.convert_element_type(jnp.clip(values, least, most), dtype)
