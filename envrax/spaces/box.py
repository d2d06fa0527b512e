"""`Box`: arrays between given bounds."""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from envrax.spaces.array import (
    ArraySpace,
    Bounds,
    as_dtype,
    as_shape,
    compact,
    flush_subnormals,
    short_text,
)
from envrax.spaces.base import kind, limits


class Box(ArraySpace):
    """
    Arrays of `shape` with `low <= x <= high`, elementwise.

    Bounds are rounded to `dtype`; subnormal floats become 0, as in XLA. Two boxes are equal if
    these bounds are equal, whether they were given as scalars or as arrays.

    Parameters
    ----------
    low, high : scalar or array-like
        Inclusive bounds that broadcast to `shape`. `-inf` for `low` and `inf` for `high` mean no
        bound; for an integer dtype, its limits.
    shape : int or tuple of int, optional
        An int is the length of a single dimension. Dimensions of length 0 are legal. By default
        that of `low` and `high`, if both are arrays of one shape.
    dtype : DTypeLike
        A float or integer dtype, or bool.

    Raises
    ------
    ValueError
        If `low > high`; if a bound is NaN, does not fit `dtype` or `shape`, is fractional for an
        integer dtype, or is the infinity of the other side; if `shape` has a negative entry.
    TypeError
        If a bound is traced or not numeric, or `dtype` is of another kind; if there is no shape.

    Examples
    --------
    >>> space = Box(low=-1.0, high=[1.0, 2.0], shape=(2,))
    >>> space.low, space.high
    (-1.0, array([1., 2.], dtype=float32))
    >>> space.contains([0.5, 1.5]), space.contains([1.5, 0.5])
    (True, False)
    """

    _given: tuple[Any, Any]  # low and high as Python scalars; None if given as an array

    def __init__(
        self,
        low: ArrayLike | Sequence[Any],
        high: ArrayLike | Sequence[Any],
        shape: int | Sequence[int] | None = None,
        dtype: DTypeLike = jnp.float32,
    ) -> None:
        if shape is None:
            shape = np.shape(low)
            if not shape or shape != np.shape(high):
                raise TypeError(
                    "Box: expected a shape, or both bounds as arrays of one shape; got "
                    f"{low!r:.80} and {high!r:.80}. Write `Box(low, high, shape)`, where `()` is "
                    "one number."
                )
        shape = as_shape(shape, "Box")
        dtype = as_dtype(dtype, "Box", "float", "integer", "bool")
        lower = _bound(low, shape, dtype, "low", -math.inf)
        upper = _bound(high, shape, dtype, "high", math.inf)
        if (lower > upper).any():
            got = f"{short_text(lower, shape)} and {short_text(upper, shape)}"
            raise ValueError(f"Box: expected low <= high; got {got}.")
        self._define(lower, upper, shape, dtype, _given=(_scalar(low), _scalar(high)))

    @property
    def low(self) -> Any:
        """The lower bound as given: a Python scalar, or a read-only array of `shape`."""
        return _as_given(self._bounds[0], self._given[0], self.shape)

    @property
    def high(self) -> Any:
        """The upper bound as given: a Python scalar, or a read-only array of `shape`."""
        return _as_given(self._bounds[1], self._given[1], self.shape)

    def batch(self, n: int) -> "Box":
        return Box(self.low, self.high, (self._batch_size(n), *self.shape), self.dtype)

    def __repr__(self) -> str:
        low, high = (
            short_text(bound, self.shape) if given is None else repr(given)
            for bound, given in zip(self._bounds, self._given, strict=True)
        )
        return f"Box({low}, {high}, {self.shape}, {self.dtype})"


def _as_given(bound: Bounds, given: Any, shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(bound, shape) if given is None else given


def _scalar(bound: Any) -> Any:
    """`bound` as a Python scalar, or None if it is an array."""
    is_scalar = isinstance(bound, np.generic | bool | int | float)
    return np.asarray(bound).item() if is_scalar else None


def _bound(
    given: Any, shape: tuple[int, ...], dtype: np.dtype[Any], name: str, open_end: float
) -> Bounds:
    """A bound as a compact array of `dtype`; `open_end` is the only infinity it may hold."""
    values = compact(np.broadcast_to(np.asarray(given), shape))
    if kind(values.dtype) == "other" and not all(type(v) is int for v in values.ravel().tolist()):
        raise TypeError(f"Box: expected {name} to hold numbers; got {given!r}.")
    fit = _fit_float if kind(dtype) == "float" else _fit_integer
    with np.errstate(all="ignore"):
        fitted, legal = fit(values, dtype, open_end)
    if not legal.all():
        raise ValueError(
            f"Box: expected {name} to be numbers that {dtype} can hold, or {open_end}; "
            f"got {values[~legal][0]}."
        )
    return fitted


def _fit_float(values: Bounds, dtype: np.dtype[Any], open_end: float) -> tuple[Bounds, Bounds]:
    """`values` in `dtype`, and a mask of the legal ones."""
    if values.dtype == object:  # ints beyond 64 bits
        values = np.where(np.abs(values) <= limits(np.float64)[1], values, math.nan)
    wide = values.astype(np.float64)
    fitted = flush_subnormals(wide.astype(dtype))
    legal = np.isfinite(fitted) | (fitted == wide) & (wide == open_end)
    return np.asarray(fitted + dtype.type(0)), np.asarray(legal)  # -0.0 + 0.0 is 0.0


def _fit_integer(values: Bounds, dtype: np.dtype[Any], open_end: float) -> tuple[Bounds, Bounds]:
    """As `_fit_float`, for integers and bools, in exact arithmetic."""
    least, most = limits(dtype)
    if kind(values.dtype) == "float":
        values = values.astype(np.float64)
    exact = values.astype(object)
    exact[np.asarray(exact == open_end)] = most if open_end > 0 else least
    legal = np.asarray((exact % 1 == 0) & (exact >= least) & (exact <= most))
    return np.where(legal, exact, 0).astype(dtype), legal
