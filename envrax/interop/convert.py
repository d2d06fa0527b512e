"""Spaces of the libraries as spaces of envrax."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from envrax.spaces import Box, Dict, MultiBinary, Space, Tuple
from envrax.spaces.base import kind, limits


def box(low: Any, high: Any, type_: Any) -> Space:
    """
    The space of arrays like `type_` between two bounds; what no value can reach is left out.

    Parameters
    ----------
    low, high : array-like
        Bounds, scalar or of the shape of `type_`.
    type_ : jax.ShapeDtypeStruct
        Shape and dtype of what is observed, which may differ from what the library's space says.
    """
    shape, dtype = type_.shape, np.dtype(type_.dtype)
    if kind(dtype) == "bool":
        return MultiBinary(shape or (), dtype) if shape else Box(False, True, (), dtype)
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    if kind(dtype) == "integer":
        least, most = limits(dtype)
        low = np.clip(np.ceil(low), least, most)
        high = np.clip(np.floor(high), least, most)
        bounds = [np.asarray(x, object).astype(object) for x in (low, high)]
        low, high = (np.vectorize(int, otypes=[object])(x) for x in bounds)
        return Box(_scalar(low.astype(dtype)), _scalar(high.astype(dtype)), shape, dtype)
    # Gymnasium's habit of calling the largest float the bound of what has none.
    least, most = limits(dtype)
    low, high = np.where(low <= least, -np.inf, low), np.where(high >= most, np.inf, high)
    return Box(_scalar(low.astype(dtype)), _scalar(high.astype(dtype)), shape, dtype)


def unbounded(type_: Any) -> Space:
    """The space of all arrays like `type_`."""
    return box(-np.inf, np.inf, type_)


def nested(make: Callable[[Any], Space], types: Any) -> Space:
    """A space for each leaf of `types`, in `Dict`s and `Tuple`s that mirror it."""
    if isinstance(types, dict):
        named = cast(dict[str, Any], types)
        return Dict({name: nested(make, type_) for name, type_ in named.items()})
    if isinstance(types, tuple | list):
        return Tuple([nested(make, type_) for type_ in cast(list[Any], types)])
    return make(types)


def _scalar(x: np.ndarray) -> Any:
    return x.item() if x.ndim == 0 else x
