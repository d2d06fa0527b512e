# pyright: basic, reportMissingImports=false
"""Conversion between spaces of Gymnasium and of envrax."""

from typing import Any

import numpy as np

from envrax.interop.peer.library import require
from envrax.interop.peer.spaces import bounds_of
from envrax.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

require("gymnasium", "1.2", extra="gymnasium")

import gymnasium.spaces as gym_spaces  # noqa: E402


def to_space(space: Space) -> gym_spaces.Space[Any]:
    """
    The space of Gymnasium with the same elements, as NumPy arrays.

    A `Discrete` and a `MultiDiscrete` are int64, as Gymnasium's are by default; other dtypes stay.
    Gymnasium has a `MultiBinary` of int8 only. One of another dtype becomes a `Box`.

    Parameters
    ----------
    space : Space
        A space of envrax.

    Raises
    ------
    TypeError
        If Gymnasium has no such space, or NumPy no such dtype, such as bfloat16.
    """
    if getattr(space.dtype, "isbuiltin", 1) == 2:  # registered by `ml_dtypes`
        raise TypeError(
            f"to_space: expected a dtype that NumPy has; got {space!r}. Cast it with "
            "`DtypeObservation`, or with a wrapper of actions."
        )
    match space:
        case Discrete():
            return gym_spaces.Discrete(space.n)
        case MultiDiscrete():
            return gym_spaces.MultiDiscrete(np.array(space.nvec))
        case MultiBinary() if space.dtype == np.int8:
            return gym_spaces.MultiBinary(space.n if type(space.n) is int else list(space.shape))
        case MultiBinary():
            return gym_spaces.Box(0, 1, space.shape, space.dtype.type)
        case Box():
            low, high = (np.broadcast_to(x, space.shape) for x in bounds_of(space))
            return gym_spaces.Box(low, high, space.shape, space.dtype.type)
        case Tuple():
            return gym_spaces.Tuple([to_space(child) for child in space.spaces])
        case Dict():
            return gym_spaces.Dict({name: to_space(child) for name, child in space.spaces.items()})
        case _:
            raise TypeError(
                f"to_space: expected a space that Gymnasium has too; got {space!r}. "
                "Build the space of Gymnasium by hand."
            )


def from_space(space: gym_spaces.Space[Any]) -> Space:
    """
    The space of envrax with the same elements as a space of Gymnasium.

    Parameters
    ----------
    space : gymnasium.Space
        `Box`, `Discrete`, `MultiDiscrete`, `MultiBinary`, `Dict` or `Tuple`, nesting freely.

    Raises
    ------
    TypeError
        If envrax has no such space, as for `Text`, `Graph`, `Sequence` and `OneOf`.
    ValueError
        If it does not start at 0.
    """
    match space:
        case gym_spaces.Discrete():
            _require_from_0(space, space.start)
            return Discrete(int(space.n), space.dtype)
        case gym_spaces.MultiDiscrete():
            _require_from_0(space, space.start)
            return MultiDiscrete(space.nvec, space.dtype)
        case gym_spaces.MultiBinary():
            return MultiBinary(space.n if isinstance(space.n, int) else tuple(space.shape))
        case gym_spaces.Box():
            return Box(_compact(space.low), _compact(space.high), space.shape, space.dtype)
        case gym_spaces.Tuple():
            return Tuple([from_space(child) for child in space.spaces])
        case gym_spaces.Dict():
            return Dict({name: from_space(child) for name, child in space.spaces.items()})
        case _:
            raise TypeError(
                "from_space: expected a Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple "
                f"of Gymnasium; got {space!r}. Elements must be arrays of one shape and dtype."
            )


def _compact(bound: np.ndarray) -> Any:
    """A bound, as a Python scalar if it is the same everywhere."""
    return bound.flat[0].item() if bound.size and (bound == bound.flat[0]).all() else bound


def _require_from_0(space: Any, start: Any) -> None:
    if np.any(start):
        raise ValueError(
            f"from_space: expected a space that counts from 0; got {space!r}. Shift it in the "
            "environment, or with Gymnasium's `TransformAction` or `TransformObservation`."
        )
