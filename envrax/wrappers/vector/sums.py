"""Compensated sums: float32 sums of millions of terms that do not drift."""

from typing import Any, cast

import jax
import jax.numpy as jnp


def add(total: Any, low: Any, x: Any) -> tuple[Any, Any]:
    """
    `total + low + x`, rounded, and the rounding error, for each leaf of a pytree.

    Parameters
    ----------
    total, low : pytree of jax.Array
        float32, the sum so far and its rounding error. Both begin at 0.
    x : pytree of jax.Array
        float32, the terms to add.

    Returns
    -------
    total, low : pytree of jax.Array
        The new sum and its rounding error. `total` alone is the sum to within rounding. A sum that
        is not finite is that of plain additions.
    """
    columns = [cast(Any, jax.tree.leaves(tree)) for tree in (total, low, x)]
    sums = [_two_sum(*leaves) for leaves in zip(*columns, strict=True)]
    structure = cast(Any, jax.tree.structure(total))
    new_total = jax.tree.unflatten(structure, [pair[0] for pair in sums])
    return new_total, jax.tree.unflatten(structure, [pair[1] for pair in sums])


def _two_sum(high: jax.Array, low: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`high + low + x` as two float32 numbers: Knuth's two-sum of `high` and `x`, then `low`."""
    rounded = high + x
    rounded_x = rounded - high
    error = (high - (rounded - rounded_x)) + (x - rounded_x) + low
    total = rounded + error
    error = error - (total - rounded)
    # The error of an infinite sum is NaN.
    is_finite = jnp.isfinite(rounded)
    return jnp.where(is_finite, total, rounded), jnp.where(is_finite, error, jnp.zeros_like(error))
