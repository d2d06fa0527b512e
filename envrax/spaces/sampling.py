"""Random draws between inclusive bounds, elementwise, for every dtype of a space."""

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
    Draw integers or bools uniformly from `low` to `high`, both included.

    `jax.random.randint` cannot return the maximum of the dtype, and for spans near `2**32` some
    values are twice as likely as others. This function returns `floor(word * span / 2**bits)`. The
    random word is so much longer than the span that the bias is below `2**-24`.
    """
    bits = max(32, 8 * dtype.itemsize)
    word = np.dtype(f"uint{bits}")
    with np.errstate(over="ignore"):
        start = low.astype(word)
        span = np.asarray(high.astype(word) - start + word.type(1))  # 0 stands for 2**bits
    is_short = bool(((span > 0) & (span <= 256)).all())
    words = jax.random.bits(rng, (1 if is_short else 2, *shape), word)
    offset = _upper_half(words[0], span, bits // 2)
    if not is_short:
        carried = _upper_half(words[1], span, bits // 2)
        overflow = words[0] * span + carried < carried
        offset = jnp.where(span == 0, words[0], offset + overflow.astype(word))
    return lax.convert_element_type(start + offset, dtype)


def _upper_half(a: jax.Array, b: Any, half: int) -> jax.Array:
    """The upper half of the product of two unsigned words of `2 * half` bits."""
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
    """Draw finite floats. An infinite bound means no bound on that side."""
    wide = dtype if dtype.itemsize >= 4 else np.dtype(np.float32)
    has_low = np.isfinite(low)
    has_high = np.isfinite(high)
    # Infinite bounds are replaced, so that entries which `where` drops are not NaN.
    floor: Any = np.where(has_low, low, 0).astype(wide)
    ceiling: Any = np.where(has_high, high, 0).astype(wide)

    def uniform(key: jax.Array) -> jax.Array:
        u = jax.random.uniform(key, shape, wide)
        return floor * (1 - u) + ceiling * u  # `high - low` could overflow

    def above_low(key: jax.Array) -> jax.Array:
        return floor + jax.random.exponential(key, shape, wide)

    def below_high(key: jax.Array) -> jax.Array:
        return ceiling - jax.random.exponential(key, shape, wide)

    def normal(key: jax.Array) -> jax.Array:
        return jax.random.normal(key, shape, wide)

    draws = [
        (has_low & has_high, uniform),
        (has_low & ~has_high, above_low),
        (~has_low & has_high, below_high),
        (~has_low & ~has_high, normal),
    ]
    cases = [(mask, draw) for mask, draw in draws if mask.any()]
    keys = [rng] if len(cases) == 1 else jax.random.split(rng, len(cases))
    values = cases[0][1](keys[0])
    for i, (mask, draw) in enumerate(cases[1:], 1):
        values = jnp.where(mask, draw(keys[i]), values)
    least, most = (wide.type(limit) for limit in limits(dtype))
    low = np.maximum(low.astype(wide), least)
    high = np.minimum(high.astype(wide), most)
    return lax.convert_element_type(jnp.clip(values, low, high), dtype)
