"""Masks of legal actions, as trainers expect them."""

from typing import Any, cast

import numpy as np

from envrax.spaces import Discrete, MultiBinary, MultiDiscrete, Space
from envrax.spaces.composite import map_leaves


def gymnasium_mask(space: Space, mask: Any) -> Any:
    """
    The mask, or those of all slots, in the form that `sample` of the space of Gymnasium takes.

    It is of int8. For a `MultiDiscrete` it is a tuple of masks; for a `MultiBinary` it is the legal
    value of each entry, or 2 where both are legal. Gymnasium's `Box` takes none: there it is that
    of the environment.
    """
    return map_leaves(_gymnasium_mask, space, mask)


def _gymnasium_mask(space: Space, mask: Any) -> Any:
    if mask is None:
        return None
    if isinstance(space, MultiDiscrete):
        counts = np.array(space.nvec)
        slots = range(mask.ndim - counts.ndim - 1)  # axes, moved behind those of the entries
        return _rows(counts, np.moveaxis(mask.astype(np.int8), slots, [counts.ndim for _ in slots]))
    if isinstance(space, MultiBinary) and space.dtype == np.int8:  # others are a `Box` there
        return np.where(mask.all(-1), 2, mask[..., 1]).astype(np.int8)
    return mask.astype(np.int8)


def is_flat(space: Space) -> bool:
    """Whether `flat_mask` takes masks of the space."""
    return isinstance(space, Discrete | MultiDiscrete | MultiBinary)


def flat_mask(who: str, space: Space, mask: Any) -> np.ndarray[Any, Any]:
    """
    The masks of all slots, of shape (n_slots, number of choices).

    A row holds the legal values of a `Discrete`, or those of each entry of a `MultiDiscrete` or a
    `MultiBinary`, one after the other.
    """
    if isinstance(space, Discrete):
        return mask
    if isinstance(space, MultiDiscrete):
        counts = np.array(space.nvec)
        is_choice = cast(Any, np.arange(counts.max()) < counts[..., None])
        return mask[:, is_choice]
    if isinstance(space, MultiBinary):
        return mask.reshape(len(mask), -1)
    raise TypeError(
        f"{who}: expected actions in a Discrete, MultiDiscrete or MultiBinary; got "
        f"{space!r}. Flatten the actions with a wrapper."
    )


def _rows(counts: np.ndarray[Any, Any], mask: np.ndarray[Any, Any]) -> Any:
    if counts.ndim == 0:
        return mask[..., : int(counts)]
    return tuple(_rows(*pair) for pair in zip(counts, mask, strict=True))
