"""The one set behind `Discrete`, `MultiDiscrete`, `MultiBinary` and `Box`: low <= x <= high.

The bounds are kept compact: an axis along which they do not change has length 1. A million stacked
copies of a space therefore cost what one does, to hash, to compare, and as a constant of a
compiled program.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from .base import FrozenSpace, admits, canonical, is_array, kind, leaves, limits
from .sampling import draw_floats, draw_integers

Bounds = np.ndarray[Any, np.dtype[Any]]


class ArraySpace(FrozenSpace):
    """Arrays of one shape and dtype, between inclusive elementwise bounds."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    _bounds: Bounds  # (2, *compact shape): low, then high

    def _define(
        self, low: Bounds, high: Bounds, shape: tuple[int, ...], dtype: Any, **fields: Any
    ) -> None:
        low, high = np.broadcast_arrays(low, high)
        bounds = np.stack([low, high]) if 0 not in shape else np.zeros((2,) + (1,) * len(shape))
        bounds = bounds.astype(dtype)
        bounds.setflags(write=False)
        self._freeze(
            *(shape, dtype, bounds.shape, bounds.tobytes()),
            **{"shape": shape, "dtype": dtype, "_bounds": bounds, **fields},
        )

    def _in_force(self) -> tuple[np.dtype[Any], Bounds]:
        """The dtype that JAX computes in, and the bounds narrowed to it."""
        dtype, bounds = canonical(self.dtype), self._bounds
        if dtype == self.dtype:
            return dtype, bounds
        least, most = (self.dtype.type(limit) for limit in limits(dtype))
        narrowed = bounds.clip(least, most).astype(dtype)
        np.copyto(narrowed, bounds, casting="unsafe", where=np.isinf(bounds))
        return dtype, narrowed

    def _draw(self, rng: jax.Array) -> jax.Array:
        dtype, (low, high) = self._in_force()
        draw = draw_floats if kind(dtype) == "float" else draw_integers
        return draw(rng, self.shape, low, high, dtype)

    def _checks(self, x: Any) -> Iterator[bool | jax.Array]:
        floating = kind(self.dtype) == "float"
        dtype, bounds = self._in_force() if floating else (self.dtype, self._bounds)
        for index, leaf in leaves(x, self.shape):
            at = (min(i, n - 1) for i, n in zip(index, bounds.shape[1:], strict=False))
            yield _within(leaf, bounds[:, *at], self.shape[len(index) :], dtype)


def _within(
    x: Any, bounds: Bounds, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> bool | jax.Array:
    """Whether the leaf `x` is an array of `shape`, of the kind of `dtype`, between `bounds`."""
    if not admits(dtype, x):
        return False
    floating = kind(dtype) == "float"
    if getattr(x, "shape", ()) != shape:
        return False
    if not is_array(x):
        if not floating:
            return bool(bounds[0] <= x <= bounds[1])
        try:
            x = np.float64(x)
        except OverflowError:  # an int beyond every float
            return False
    if not isinstance(x, Tracer):
        x = np.asarray(x)
    with np.errstate(all="ignore"):
        if floating:
            x = x.astype(dtype)
        elif x.dtype != dtype:  # bounds that the dtype of x cannot hold are as good as its limits
            least, most = limits(x.dtype)
            exact = bounds.astype(object)
            if x.size and np.any((exact[0] > most) | (exact[1] < least)):
                return False
            bounds = np.clip(exact, least, most).astype(x.dtype)
        inside = (x >= bounds[0]) & (x <= bounds[1])
    return inside.all() if isinstance(inside, jax.Array) else bool(inside.all())


def compact(values: Bounds) -> Bounds:
    """Shorten to 1 every axis along which `values` do not change. Views are not expanded."""
    values = values[(..., *(slice(0, 1) if s == 0 else slice(None) for s in values.strides))]
    for axis in range(values.ndim):
        first = np.take(values, range(min(1, values.shape[axis])), axis)
        if (values == first).all():
            values = first
    return values


def as_dtype(dtype: Any, owner: str, *kinds: str) -> np.dtype[Any]:
    """`dtype` as a ``numpy.dtype`` that `owner` can have, or a ``TypeError``."""
    try:
        dtype = np.dtype(dtype)
    except TypeError:
        raise TypeError(
            f"{owner}: expected a dtype of kind {' or '.join(kinds)}; got {dtype!r}."
        ) from None
    if kind(dtype) not in kinds:
        raise TypeError(f"{owner}: expected a dtype of kind {' or '.join(kinds)}; got {dtype}.")
    return dtype


def as_shape(shape: Any, owner: str, *, least: int = 0) -> tuple[int, ...]:
    """`shape`, an int or a sequence of ints, as a tuple of ints that are all >= `least`."""
    sizes = tuple(shape) if np.iterable(shape) else (shape,)
    sizes = tuple(operator.index(size) for size in sizes)
    if any(size < least for size in sizes):
        raise ValueError(f"{owner}: expected every dimension >= {least}; got {shape}.")
    return sizes


def as_numpy(values: Any, owner: str) -> Bounds:
    """What defines a space as a NumPy array; ``ValueError`` if ragged, ``TypeError`` if traced."""
    if isinstance(values, Tracer):
        raise TypeError(
            f"{owner}: expected concrete values; got a traced array. Build spaces outside of jit, "
            "or from NumPy arrays."
        )
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{owner}: expected an array; got a ragged list.") from error


def brief(values: Bounds, shape: tuple[int, ...]) -> str:
    """A short text for an array of `shape` with the compact `values`."""
    full = np.broadcast_to(values, shape)
    if full.size <= 8:
        return np.array2string(full, separator=", ").replace("\n", "")
    span = f"{values.min()}" if values.size == 1 else f"{values.min()}..{values.max()}"
    return f"<{shape} of {span}>"
