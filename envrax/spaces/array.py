"""
`ArraySpace`, the base of `Discrete`, `MultiDiscrete`, `MultiBinary` and `Box`: low <= x <= high.

Bounds are stored with length 1 along every axis on which they do not change. A batch of a million
spaces is therefore as cheap as one space to hash, to compare, and to compile into a program.
"""

import operator
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from envrax.spaces.base import FrozenSpace, canonical, has_kind, is_array, kind, limits, list_leaves
from envrax.spaces.masks import draw_legal, not_padding, require_mask
from envrax.spaces.sampling import draw_floats, draw_integers

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
        key = shape, dtype, bounds.shape, bounds.tobytes()
        self._freeze(*key, shape=shape, dtype=dtype, _bounds=bounds, **fields)

    def _jax_bounds(self) -> tuple[np.dtype[Any], Bounds]:
        """The dtype that JAX computes in, and the bounds in that dtype."""
        dtype = canonical(self.dtype)
        bounds = self._bounds
        if dtype == self.dtype:
            return dtype, bounds
        least, most = (self.dtype.type(limit) for limit in limits(dtype))
        narrowed = bounds.clip(least, most).astype(dtype)
        if kind(dtype) == "float":
            narrowed = flush_subnormals(narrowed)
        np.copyto(narrowed, bounds, casting="unsafe", where=np.isinf(bounds))
        return dtype, narrowed

    def limits(self) -> Bounds:
        """Low and high in JAX's dtype, compact: see the docstring of this module."""
        return self._jax_bounds()[1]

    def _draw(self, rng: jax.Array, mask: Any) -> jax.Array:
        if mask is not None:
            drawn = draw_legal(rng, require_mask(self, mask), not_padding(self))
            return drawn.astype(canonical(self.dtype))
        dtype, (low, high) = self._jax_bounds()
        least, most = limits(dtype)
        if np.any((self._bounds[0] > most) | (self._bounds[1] < least)):
            raise ValueError(
                f"{type(self).__name__}.sample: expected bounds with numbers of {dtype} between "
                f"them; got {self}. Enable 64 bits: "
                '`jax.config.update("jax_enable_x64", True)`.'
            )
        draw = draw_floats if kind(dtype) == "float" else draw_integers
        return draw(rng, self.shape, low, high, dtype)

    def _checks(self, x: Any) -> Iterator[bool | jax.Array]:
        floating = kind(self.dtype) == "float"
        dtype, bounds = self._jax_bounds() if floating else (self.dtype, self._bounds)
        for index, leaf in list_leaves(x, self.shape):
            at = (min(i, n - 1) for i, n in zip(index, bounds.shape[1:], strict=False))
            yield _within(leaf, bounds[:, *at], self.shape[len(index) :], dtype)


def _within(
    x: Any, bounds: Bounds, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> bool | jax.Array:
    """Whether the leaf `x` is an array of `shape`, of the kind of `dtype`, between `bounds`."""
    if not has_kind(dtype, x) or getattr(x, "shape", ()) != shape:
        return False
    floating = kind(dtype) == "float"
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
            x = flush_subnormals(x.astype(dtype))
        elif x.dtype != dtype:  # compare in the dtype of x, with bounds clipped to its limits
            least, most = limits(x.dtype)
            exact = bounds.astype(object)
            if x.size and np.any((exact[0] > most) | (exact[1] < least)):
                return False
            bounds = np.clip(exact, least, most).astype(x.dtype)
        inside = (x >= bounds[0]) & (x <= bounds[1])
    return inside.all() if isinstance(inside, jax.Array) else bool(inside.all())


def flush_subnormals(x: Any) -> Any:
    """
    Float array `x` with 0 in place of subnormal numbers, which XLA treats as 0.

    Which numbers are subnormal depends on the dtype of the computation: float64, or else float32,
    in which 16-bit floats are computed too.
    """
    tiny = float(jnp.finfo(jnp.float64 if x.dtype.itemsize == 8 else jnp.float32).tiny)
    where = jnp.where if isinstance(x, jax.Array) else np.where
    return where(abs(x) < tiny, x.dtype.type(0), x)


def compact(values: Bounds) -> Bounds:
    """`values` with length 1 along every axis on which they do not change."""
    values = values[(..., *(slice(0, 1) if s == 0 else slice(None) for s in values.strides))]
    for axis in range(values.ndim):
        first = np.take(values, range(min(1, values.shape[axis])), axis)
        if (values == first).all():
            values = first
    return values


def as_dtype(dtype: Any, owner: str, *kinds: str) -> np.dtype[Any]:
    """`dtype` as a `numpy.dtype`; a `TypeError` that names `owner` if it is not of `kinds`."""
    dtype = np.dtype(dtype)
    if kind(dtype) not in kinds:
        raise TypeError(f"{owner}: expected a dtype of kind {' or '.join(kinds)}; got {dtype}.")
    return dtype


def as_shape(shape: Any, owner: str, *, least: int = 0) -> tuple[int, ...]:
    """`shape`, an int or a sequence of ints, as a tuple; each int must be at least `least`."""
    sizes = tuple(shape) if np.iterable(shape) else (shape,)
    sizes = tuple(operator.index(size) for size in sizes)
    if any(size < least for size in sizes):
        raise ValueError(f"{owner}: expected every dimension >= {least}; got {shape}.")
    return sizes


def short_text(values: Bounds, shape: tuple[int, ...]) -> str:
    """A short text for an array of `shape`, whose `values` are compact."""
    full = np.broadcast_to(values, shape)
    if full.size <= 8:
        text = np.array2string(full, separator=", ", formatter={"all": str})  # without padding
        return " ".join(text.split())
    span = f"{values.min()}" if values.size == 1 else f"{values.min()}..{values.max()}"
    return f"<{shape} of {span}>"
