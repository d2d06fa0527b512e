"""Spaces of envrax for adapters: from bounds and types, or from a space of the library."""

import math
from collections.abc import Callable
from typing import Any, cast

import jax
import numpy as np

from envrax.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from envrax.spaces.base import kind, limits
from envrax.spaces.composite import map_leaves


def box(low: Any, high: Any, type_: Any) -> Space:
    """
    The space of arrays of a type between two bounds. A bound that the dtype cannot hold is dropped.

    Parameters
    ----------
    low, high : array-like
        Bounds, scalar or of the shape of `type_`.
    type_ : jax.ShapeDtypeStruct
        Shape and dtype that are observed, which may differ from those of the library's space.
    """
    shape = type_.shape
    dtype = np.dtype(type_.dtype)
    if kind(dtype) == "bool":
        return MultiBinary(shape or (), dtype) if shape else Box(False, True, (), dtype)
    if kind(dtype) == "integer":
        low = _whole(math.ceil, low, dtype)
        high = _whole(math.floor, high, dtype)
    else:
        least, most = limits(dtype)
        low = np.asarray(low, np.float64)
        high = np.asarray(high, np.float64)
        # Gymnasium uses the largest float for a missing bound.
        low = np.where(low <= least, -np.inf, low)
        high = np.where(high >= most, np.inf, high)
    return Box(_scalar(low.astype(dtype)), _scalar(high.astype(dtype)), shape, dtype)


def box_and_discrete(peer: Any, params: Any, observed: Any) -> tuple[Space, Space]:
    """The spaces of a library's object with methods like gymnax's, whose actions are numbers."""
    obs_space = peer.observation_space(params)
    n_actions = int(peer.action_space(params).n)
    return box(obs_space.low, obs_space.high, observed), Discrete(n_actions)


def _whole(rounded: Callable[[Any], int], bound: Any, dtype: Any) -> np.ndarray:
    """A bound within the limits of integers, in Python's numbers: no float holds 2**63 - 1."""
    least, most = limits(dtype)

    def one(x: Any) -> int:
        return rounded(min(max(x, least), most))

    return np.vectorize(one, otypes=[object])(np.asarray(bound, object))


def unbounded(type_: Any) -> Space:
    """The space of all arrays of a shape and dtype."""
    return box(-np.inf, np.inf, type_)


def nested(make: Callable[[Any], Space], types: Any) -> Space:
    """A space for each leaf of `types`, in `Dict`s and `Tuple`s that mirror it."""
    if isinstance(types, dict):
        named = cast(dict[str, Any], types)
        return Dict({name: nested(make, type_) for name, type_ in named.items()})
    if isinstance(types, tuple | list):
        return Tuple([nested(make, type_) for type_ in cast(list[Any], types)])
    return make(types)


_COUNTS = ("n", "nvec", "num_values", "num_categories")


def from_library_space(space: Any, types: Any = None, *, exact: bool = True) -> Space:
    """
    The space of envrax for one of gymnax, Stoa, JaxMARL and others with the same attributes.

    Parameters
    ----------
    space : Any
        The library's space.
    types : pytree of jax.ShapeDtypeStruct, optional
        Shapes and dtypes that are observed; by default those of the space.
    exact : bool, default True
        Whether shapes must be those of the space. JaxMARL declares wrong ones.

    Raises
    ------
    TypeError
        If `exact` is set and a shape is not that of the space.
    """

    def declared(name: str, default: Any = None) -> Any:
        """A field; one class for all kinds has some that are None."""
        return default if (value := getattr(space, name, None)) is None else value

    children = declared("spaces") or declared("_specs") or space
    if isinstance(children, dict):
        items = cast(dict[str, Any], children).items()
        return Dict({k: from_library_space(x, types and types[k], exact=exact) for k, x in items})
    if isinstance(children, tuple | list):
        pairs = enumerate(cast(list[Any], children))
        return Tuple([from_library_space(x, types and types[i], exact=exact) for i, x in pairs])
    counts = next((x for x in map(declared, _COUNTS) if x is not None), None)
    bounds = np.asarray(declared("low", 0))  # of lynnx, which has no shape
    shape = declared("shape", bounds.shape)
    shape = tuple(map(int, np.ravel(shape)))  # of Hanabi in JaxMARL it is a number
    if types is None:
        dtype = declared("dtype", bounds.dtype if counts is None else np.int32)
        types = jax.ShapeDtypeStruct(shape, np.dtype(dtype))
    if exact and types.shape != shape:
        raise TypeError(f"observations of shape {types.shape}, and the space {space}")
    if counts is not None:
        if np.any(declared("start", 0)):
            raise TypeError(f"actions that begin at {space.start}; an adapter adds it")
        counts = np.asarray(counts)
        if counts.ndim == 0 and not types.shape:
            return Discrete(int(counts), types.dtype)
        return MultiDiscrete(np.broadcast_to(counts, types.shape).tolist(), types.dtype)
    low, high = declared("low", declared("minimum")), declared("high", declared("maximum"))
    if low is None and high is None:
        return unbounded(types)
    return box(-np.inf if low is None else low, np.inf if high is None else high, types)


def bounds_of(space: Box) -> tuple[Any, Any]:
    """The bounds of a `Box` as arrays. A missing bound of integers is the limit of their dtype."""
    if kind(space.dtype) == "float":
        return np.asarray(space.low, space.dtype), np.asarray(space.high, space.dtype)
    least, most = limits(space.dtype)
    low = least if np.ndim(space.low) == 0 and space.low == -np.inf else space.low
    high = most if np.ndim(space.high) == 0 and space.high == np.inf else space.high
    return np.asarray(low, space.dtype), np.asarray(high, space.dtype)


def outer_dtype(space: Space) -> Any:
    """
    The dtype of a space outside of JAX: int64 for choices, as Gymnasium and PyTorch have them.

    A `Dict` or a `Tuple` has dicts and tuples of dtypes.
    """

    def of_leaf(leaf: Space) -> Any:
        return np.dtype(np.int64) if isinstance(leaf, Discrete | MultiDiscrete) else leaf.dtype

    return map_leaves(of_leaf, space)


def outside(space: Space, x: Any) -> Any:
    """One or more elements of a space, as arrays of NumPy in the dtypes of `outer_dtype`."""

    def of_leaf(leaf: Space, x: Any) -> Any:
        return within(leaf, outer_dtype(leaf), x)

    return map_leaves(of_leaf, space, x)


def within(space: Space, dtypes: Any, x: Any) -> Any:
    """
    One or more elements of a space that is not nested, in a wider dtype, within its bounds.

    JAX's float32 may round a bound of float64 outwards: what is at it comes to the bound. Numbers
    that are outside in float32 too stay outside.
    """

    if not isinstance(space, Box) or x.dtype == dtypes or kind(space.dtype) != "float":
        return jax.tree.map(lambda dtype, x: x.astype(dtype, copy=False), dtypes, x)
    low, high = space.limits()
    inside = (x >= low) & (x <= high)
    wide = x.astype(dtypes)
    return cast(Any, np).where(inside, wide.clip(*bounds_of(space)), wide)


def _scalar(x: np.ndarray) -> Any:
    return x.item() if x.ndim == 0 else x
