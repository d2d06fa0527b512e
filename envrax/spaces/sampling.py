"""Uniform draws between inclusive bounds, elementwise, for every dtype a space may have."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from envrax.spaces.base import limits


def draw_integers(
    rng: jax.Array, shape: tuple[int, ...], low: Any, high: Any, dtype: np.dtype[Any]
) -> jax.Array:
    """
    Draw integers or bools, `low` and `high` included, full ranges included.

    `jax.random.randint` cannot return the maximum of the dtype, and for spans near `2**32` some
    values are twice as likely as others. This is `floor(word * span / 2**bits)` with a random word
    so much longer than the span that the bias is below `2**-24`.
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
    """The upper half of the double-width product of two unsigned words of `2 * half` bits."""
    mask = (1 << half) - 1
    low_a = a & mask
    high_a = a >> half
    low_b = b & mask
    high_b = b >> half
    middle = high_a * low_b + (low_a * low_b >> half)
    return high_a * high_b + (middle >> half) + (low_a * high_b + (middle & mask) >> half)


def draw_floats(
    rng: jax.Array, shape: tuple[int, ...], low: Any, high: Any, dtype: np.dtype[Any]
) -> jax.Array:
    """Draw finite floats. An infinite bound means that there is none on that side."""
    wide = dtype if dtype.itemsize >= 4 else np.dtype(np.float32)
    below = np.isfinite(low)
    above = np.isfinite(high)
    # Infinite bounds are replaced, so that the entries that `where` drops compute no NaN.
    floor: Any = np.where(below, low, 0).astype(wide)
    ceiling: Any = np.where(above, high, 0).astype(wide)

    def between(key: jax.Array) -> jax.Array:
        u = jax.random.uniform(key, shape, wide)
        return floor * (1 - u) + ceiling * u  # `high - low` could overflow

    def upwards(key: jax.Array) -> jax.Array:
        return floor + jax.random.exponential(key, shape, wide)

    def downwards(key: jax.Array) -> jax.Array:
        return ceiling - jax.random.exponential(key, shape, wide)

    def anywhere(key: jax.Array) -> jax.Array:
        return jax.random.normal(key, shape, wide)

    masks = (below & above, below & ~above, ~below & above, ~below & ~above)
    draws = (between, upwards, downwards, anywhere)
    cases = [(mask, draw) for mask, draw in zip(masks, draws, strict=True) if mask.any()]
    keys = [rng] if len(cases) == 1 else jax.random.split(rng, len(cases))
    values = cases[0][1](keys[0])
    for i, (mask, draw) in enumerate(cases[1:], 1):
        values = jnp.where(mask, draw(keys[i]), values)
    least, most = (wide.type(limit) for limit in limits(dtype))
    low = np.maximum(low.astype(wide), least)
    high = np.minimum(high.astype(wide), most)
    return lax.convert_element_type(jnp.clip(values, low, high), dtype)
