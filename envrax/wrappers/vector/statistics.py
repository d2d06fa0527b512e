"""Running mean and variance, in float32 that does not drift."""

from typing import Any, cast

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

F32 = jnp.float32


@chex.dataclass
class RunningStatistics:
    """
    Mean and variance of everything seen so far, for each element of a pytree.

    Each sum is kept as two float32 numbers: the second is the rounding error of the first. Counts
    stay exact beyond 2**24, and nothing drifts over millions of steps.

    Attributes
    ----------
    count : jax.Array
        float32 scalar, the number of samples.
    mean : pytree of jax.Array
        Their mean, float32.
    squares : pytree of jax.Array
        The sum of their squared distances from the mean, float32.
    low : tuple
        The rounding errors of these three.

    Examples
    --------
    >>> seen = RunningStatistics.of(count=4.0, mean=[1.0, 2.0], var=[1.0, 0.5])
    >>> seen.var.tolist()
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
                f"RunningStatistics.of: expected a count above 0; got {count}. Leave statistics "
                "out to begin anew."
            )
        count = jnp.asarray(count, F32)
        mean, var = (jax.tree.map(_array, x, is_leaf=_is_numbers) for x in (mean, var))
        shapes = [jax.tree.map(jnp.shape, x) for x in (mean, var)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                "RunningStatistics.of: expected a mean and a variance of the same shape; got "
                f"{shapes[0]} and {shapes[1]}."
            )
        known = [x for x in jax.tree.leaves(var) if not isinstance(x, Tracer)]
        if not all(np.all(np.asarray(x) >= 0) for x in known):
            raise ValueError("RunningStatistics.of: expected variances of at least 0; got less.")
        squares = jax.tree.map(lambda x: x * count, var)
        low = jax.tree.map(jnp.zeros_like, (count, mean, squares))
        return cls(count=count, mean=mean, squares=squares, low=low)

    @property
    def var(self) -> Any:
        """The (biased) variance: the mean squared distance from the mean."""
        return jax.tree.map(lambda x: x / self.count, self.squares)

    def update(self, batch: Any) -> "RunningStatistics":
        """
        The statistics after one more batch.

        Parameters
        ----------
        batch : pytree of jax.Array
            One or more samples, stacked along the first axis. It may be sharded over devices, which
            then exchange sums.
        """
        n = F32(jax.tree.leaves(batch)[0].shape[0])
        count, count_low = _add(self.count, self.low[0], n)

        def one(seen: Any, mean: Any, squares: Any, mean_low: Any, squares_low: Any) -> Any:
            center, spread = seen
            moved = center - mean_low
            spread = spread + jnp.square(moved) * n * (self.count / count)
            return _add(mean, mean_low, moved * (n / count)), _add(squares, squares_low, spread)

        leaves, tree = cast(Any, jax.tree.flatten(batch))
        old = [jax.tree.leaves(x) for x in (self.mean, self.squares, *self.low[1:])]
        seen = _seen(leaves, old[0])
        new = [one(*args) for args in zip(seen, *old, strict=True)]

        def gathered(which: int, part: int) -> Any:
            return jax.tree.unflatten(tree, [pairs[which][part] for pairs in new])

        low = count_low, gathered(0, 1), gathered(1, 1)
        return RunningStatistics(count=count, mean=gathered(0, 0), squares=gathered(1, 0), low=low)

    def normalize(self, x: Any, epsilon: float) -> Any:
        """`x` minus the mean, divided by the standard deviation; float32."""

        def of_all(x: jax.Array, like: jax.Array) -> jax.Array:
            return jnp.expand_dims(x, tuple(range(like.ndim - x.ndim)))

        scaled = [
            (x.astype(F32) - of_all(mean, x) - of_all(low, x))
            / of_all(jnp.sqrt(var + F32(epsilon)), x)
            for x, mean, low, var in zip(
                *map(jax.tree.leaves, (x, self.mean, self.low[1], self.var)), strict=True
            )
        ]
        return jax.tree.unflatten(jax.tree.structure(x), scaled)


def _seen(leaves: list[Any], means: list[Any]) -> list[tuple[jax.Array, jax.Array]]:
    """The mean of each leaf, and the sum of the squared distances from it."""

    def one(x: jax.Array, mean: jax.Array) -> tuple[jax.Array, jax.Array]:
        # Relative to the old mean, so that a large mean costs the variance no precision.
        x = x.astype(F32) - jnp.expand_dims(mean, 0)
        center = jnp.sum(x, 0) / F32(x.shape[0])
        return center, jnp.sum(jnp.square(x - jnp.expand_dims(center, 0)), 0)

    return [one(x, mean) for x, mean in zip(leaves, means, strict=True)]


def _add(high: jax.Array, low: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`high + low + x`, rounded, and the rounding error (Knuth's two-sum)."""
    x = x + low
    total = high + x
    of_x = total - high
    return total, (high - (total - of_x)) + (x - of_x)


def _array(x: Any) -> jax.Array:
    return jnp.asarray(x, F32)


def _is_numbers(x: Any) -> bool:
    """Whether `x` is a list of numbers, which is an array here, unlike in JAX."""
    return isinstance(x, list)
