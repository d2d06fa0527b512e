"""`Discrete`, `MultiDiscrete` and `MultiBinary`: integers that start at 0."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from envrax.spaces.array import ArraySpace, Bounds, as_dtype, as_shape, compact, short_text
from envrax.spaces.base import is_list, limits


class Discrete(ArraySpace):
    """
    The integers `0 .. n - 1`.

    Parameters
    ----------
    n : int
        Number of elements.
    dtype : DTypeLike
        An integer dtype that holds `n - 1`.

    Raises
    ------
    ValueError
        If `n < 1`, or `dtype` is too narrow.
    TypeError
        If `n` is not an int, or `dtype` is not an integer dtype.

    Examples
    --------
    >>> Discrete(4).contains(3), Discrete(4).contains(4)
    (True, False)
    >>> Discrete(4).batch(2)
    MultiDiscrete((4, 4))
    """

    n: int

    def __init__(self, n: int, dtype: DTypeLike = jnp.int32) -> None:
        dtype = as_dtype(dtype, "Discrete", "integer")
        highest = _highest(np.asarray(n), dtype, "Discrete: expected n")
        if highest.ndim:
            raise TypeError(f"Discrete: expected n to be an int; got {n}. Use MultiDiscrete.")
        self._define(np.zeros_like(highest), highest, (), dtype, n=highest.item() + 1)

    def batch(self, n: int) -> "MultiDiscrete":
        return MultiDiscrete(np.broadcast_to(self.n, (self._batch_size(n),)), self.dtype)

    def __repr__(self) -> str:
        return f"Discrete({self.n}{_suffix(self, jnp.int32)})"


class MultiDiscrete(ArraySpace):
    """
    Integer arrays, each entry from 0 to `n - 1` for its own `n` in `nvec`.

    Parameters
    ----------
    nvec : array-like of int
        Number of values of each entry. The space has the shape of this array.
    dtype : DTypeLike
        An integer dtype that holds `nvec - 1`.

    Raises
    ------
    ValueError
        If `nvec` is empty, ragged or has an entry < 1, or `dtype` is too narrow.
    TypeError
        If `nvec` does not hold ints, or `dtype` is not an integer dtype.

    Examples
    --------
    >>> space = MultiDiscrete((3, 5))
    >>> space.contains([2, 4]), space.contains([3, 0])
    (True, False)
    >>> space.sample(jax.random.key(0)).shape
    (2,)
    """

    def __init__(self, nvec: ArrayLike | Sequence[Any], dtype: DTypeLike = jnp.int32) -> None:
        dtype = as_dtype(dtype, "MultiDiscrete", "integer")
        counts = np.asarray(nvec)
        if not counts.size:
            raise ValueError(f"MultiDiscrete: expected a non-empty nvec; got shape {counts.shape}.")
        highest = _highest(compact(counts), dtype, "MultiDiscrete: expected every entry of nvec")
        self._define(np.zeros_like(highest), highest, counts.shape, dtype)

    @property
    def nvec(self) -> Any:
        """Number of values of each entry, as (nested) tuples; an int if the space has no axes."""
        return _nested(np.broadcast_to(self._counts, self.shape).tolist())

    @property
    def _counts(self) -> Bounds:
        return np.asarray((self._bounds[1:].astype(object) + 1)[0], object)

    def batch(self, n: int) -> "MultiDiscrete":
        shape = (self._batch_size(n), *self.shape)
        return MultiDiscrete(np.broadcast_to(self._counts, shape), self.dtype)

    def __repr__(self) -> str:
        text = f"{self.nvec}" if self.size <= 8 else short_text(self._counts, self.shape)
        return f"MultiDiscrete({text}{_suffix(self, jnp.int32)})"


class MultiBinary(ArraySpace):
    """
    Arrays of zeros and ones.

    Parameters
    ----------
    n : int or tuple of int
        Number of entries, or the shape.
    dtype : DTypeLike
        An integer dtype or bool.

    Raises
    ------
    ValueError
        If `n`, or an entry of it, is < 1.
    TypeError
        If `dtype` is neither an integer dtype nor bool.

    Examples
    --------
    >>> MultiBinary(3).contains([0, 1, 1]), MultiBinary(3).contains([0, 1, 2])
    (True, False)
    """

    n: int | tuple[int, ...]

    def __init__(self, n: int | Sequence[int], dtype: DTypeLike = jnp.int8) -> None:
        shape = as_shape(n, "MultiBinary", least=1)
        dtype = as_dtype(dtype, "MultiBinary", "integer", "bool")
        low = np.zeros((1,) * len(shape), dtype)
        self._define(low, low + 1, shape, dtype, n=shape if np.iterable(n) else shape[0])

    def batch(self, n: int) -> "MultiBinary":
        return MultiBinary((self._batch_size(n), *self.shape), self.dtype)

    def __repr__(self) -> str:
        return f"MultiBinary({self.n}{_suffix(self, jnp.int8)})"


def _highest(counts: Bounds, dtype: np.dtype[Any], expected: str) -> Bounds:
    """`counts - 1` in `dtype`; an error if an entry is not an int, is below 1 or is too large."""
    most = limits(dtype)[1] + 1
    for count in counts.ravel().tolist():
        if type(count) is not int:
            raise TypeError(f"{expected} to be an int; got {count!r}.")
        if not 1 <= count <= most:
            raise ValueError(f"{expected} to be between 1 and {most} for {dtype}; got {count}.")
    return np.asarray(counts.astype(object) - 1, object).astype(dtype)


def _nested(values: Any) -> Any:
    return tuple(_nested(value) for value in values) if is_list(values) else values


def _suffix(space: ArraySpace, default: DTypeLike) -> str:
    return "" if space.dtype == default else f", {space.dtype}"
