"""`RunningStatistics`: running mean and variance in float32, without drift."""

from typing import Any, cast

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from envrax.spaces import kind

F32 = jnp.float32


@chex.dataclass
class RunningStatistics:
    """
    Mean and variance of all samples so far, for each element of a pytree.

    Each sum is stored as two float32 numbers: the second is the rounding error of the first. Counts
    stay exact beyond 2**24, and the mean and variance do not drift over millions of steps.

    Attributes
    ----------
    count : jax.Array
        float32 scalar, the number of samples.
    mean : pytree of jax.Array
        The mean of the samples, float32.
    squares : pytree of jax.Array
        The sum of the squared distances of the samples from the mean, float32.
    low : tuple
        The rounding errors of `count`, `mean` and `squares`.

    Examples
    --------
    >>> statistics = RunningStatistics.of(count=4.0, mean=[1.0, 2.0], var=[1.0, 0.5])
    >>> statistics.var.tolist()
    [1.0, 0.5]
    """

    count: jax.Array
    mean: Any
    squares: Any
    low: Any

    @classmethod
    def of(cls, count: Any, mean: Any, var: Any) -> "RunningStatistics":
        """Statistics with this count, mean and (biased) variance, such as those of a data set."""
        if not isinstance(count, Tracer) and not np.all(np.asarray(count) > 0):
            raise ValueError(
                f"RunningStatistics.of: expected a count above 0; got {count}. To start without "
                "samples, leave out `statistics`."
            )
        count = jnp.asarray(count, F32)
        mean_low = jax.tree.map(lambda x: _float32_parts(x)[1], mean, is_leaf=_is_list)
        mean = jax.tree.map(lambda x: _float32_parts(x)[0], mean, is_leaf=_is_list)
        var = jax.tree.map(lambda x: jnp.asarray(x, F32), var, is_leaf=_is_list)
        mean_shape = jax.tree.map(jnp.shape, mean)
        var_shape = jax.tree.map(jnp.shape, var)
        if mean_shape != var_shape:
            raise ValueError(
                "RunningStatistics.of: expected a mean and a variance of the same shape; got "
                f"{mean_shape} and {var_shape}."
            )
        concrete = [x for x in jax.tree.leaves(var) if not isinstance(x, Tracer)]
        if not all(np.all(np.asarray(x) >= 0) for x in concrete):
            raise ValueError(
                "RunningStatistics.of: expected variances of at least 0; got a negative one."
            )
        squares = jax.tree.map(lambda x: x * count, var)
        low = jnp.zeros_like(count), mean_low, jax.tree.map(jnp.zeros_like, squares)
        return cls(count=count, mean=mean, squares=squares, low=low)

    @property
    def var(self) -> Any:
        """The (biased) variance: the mean squared distance from the mean."""
        return jax.tree.map(lambda x: x / self.count, self.squares)

    def update(self, batch: Any, where: jax.Array | None = None) -> "RunningStatistics":
        """
        The statistics after one more batch.

        Parameters
        ----------
        batch : pytree of jax.Array
            One or more samples, stacked along the first axis. It may be sharded over devices. They
            then exchange sums.
        where : jax.Array, optional
            bool, one for each sample: those that count. Default: all.
        """
        n = F32(jax.tree.leaves(batch)[0].shape[0]) if where is None else jnp.sum(where, dtype=F32)
        count, count_low = add(self.count, self.low[0], n)

        def merge(moments: Any, mean: Any, squares: Any, mean_low: Any, squares_low: Any) -> Any:
            center, spread = moments
            distance = center - mean_low
            spread = spread + jnp.square(distance) * n * (self.count / count)
            new_mean = add(mean, mean_low, distance * (n / count))
            new_squares = add(squares, squares_low, spread)
            return new_mean, new_squares

        leaves, tree = cast(Any, jax.tree.flatten(batch))
        old = [jax.tree.leaves(x) for x in (self.mean, self.squares, *self.low[1:])]
        moments = _batch_moments(leaves, old[0], n, where)
        new = [merge(*args) for args in zip(moments, *old, strict=True)]

        def collect(field: int, part: int) -> Any:
            return jax.tree.unflatten(tree, [pairs[field][part] for pairs in new])

        low = (count_low, collect(0, 1), collect(1, 1))
        return RunningStatistics(count=count, mean=collect(0, 0), squares=collect(1, 0), low=low)

    def normalize(self, x: Any, epsilon: float) -> Any:
        """`x` minus the mean, divided by `sqrt(variance + epsilon)`; float32."""

        def expand(x: jax.Array, like: jax.Array) -> jax.Array:
            return jnp.expand_dims(x, tuple(range(like.ndim - x.ndim)))

        def normalize_leaf(x: Any, mean: Any, mean_low: Any, var: Any) -> jax.Array:
            centered = _minus(x, expand(mean, x)) - expand(mean_low, x)
            return centered / expand(jnp.sqrt(var + F32(epsilon)), x)

        columns = map(jax.tree.leaves, (x, self.mean, self.low[1], self.var))
        scaled = [normalize_leaf(*leaves) for leaves in zip(*columns, strict=True)]
        return jax.tree.unflatten(jax.tree.structure(x), scaled)


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


def require_statistics(who: str, statistics: Any, like: Any) -> None:
    """Refuse what are not `RunningStatistics` of samples with the shapes of `like`."""
    if not isinstance(statistics, RunningStatistics):
        raise TypeError(
            f"{who}: expected statistics to be a RunningStatistics; got {repr(statistics)[:60]}. "
            "Pass `state.statistics`, or `RunningStatistics.of(count, mean, var)`."
        )
    expected = jax.tree.map(np.shape, like)
    got = jax.tree.map(np.shape, statistics.mean)
    if got != expected or np.shape(statistics.count):
        raise ValueError(
            f"{who}: expected statistics of shape {expected}; got {got}. Pass the statistics "
            "of a batch with the same single observation space."
        )


def _batch_moments(
    leaves: list[Any], means: list[Any], n: jax.Array, where: Any
) -> list[tuple[jax.Array, jax.Array]]:
    """For each leaf, the mean of n samples minus the old mean, and their squared deviations."""

    def total(x: jax.Array) -> jax.Array:
        if where is None:
            return jnp.sum(x, 0)
        return jnp.sum(x, 0, where=jnp.expand_dims(where, tuple(range(1, x.ndim))))

    def moments(x: jax.Array, mean: jax.Array) -> tuple[jax.Array, jax.Array]:
        # Relative to the old mean, so that the variance keeps its precision when the mean is large.
        x = _minus(x, jnp.expand_dims(mean, 0))
        center = total(x) / jnp.maximum(n, F32(1))
        return center, total(jnp.square(x - jnp.expand_dims(center, 0)))

    return [moments(x, mean) for x, mean in zip(leaves, means, strict=True)]


def _minus(x: jax.Array, mean: jax.Array) -> jax.Array:
    """`x - mean`, float32. Digits of `x` that float32 cannot hold count."""
    if x.dtype.itemsize == 8:
        return (x.astype(jnp.float64) - mean.astype(jnp.float64)).astype(F32)
    if kind(x.dtype) == "integer" and x.dtype.itemsize == 4:
        last_digits = x & x.dtype.type(0xFFF)
        return ((x - last_digits).astype(F32) - mean) + last_digits.astype(F32)
    return x.astype(F32) - mean


def _float32_parts(x: Any) -> tuple[jax.Array, jax.Array]:
    """`x` as float32, and the rounding error."""
    x = x if isinstance(x, jax.Array) else np.asarray(x, np.float64)
    high = x.astype(F32)
    return jnp.asarray(high), jnp.asarray((x - high.astype(x.dtype)).astype(F32))


def _is_list(x: Any) -> bool:
    """Whether `x` is a list of numbers. Here it is an array, not a pytree as in JAX."""
    return isinstance(x, list)
