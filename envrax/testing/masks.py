"""Why a mask of legal actions does not fit the action space."""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from envrax.spaces import Space
from envrax.spaces.array import ArraySpace
from envrax.spaces.masks import mask_shape, not_padding
from envrax.testing.mismatch import Mismatch, first_mismatch
from envrax.testing.pytrees import describe, leaves, to_numpy


def why_unfit(space: Space, mask: Any) -> Mismatch | None:
    """
    The first leaf of a mask whose shape or dtype does not fit the space.

    Parameters
    ----------
    space : Space
        The space.
    mask : Any
        The mask, which may be traced.

    Returns
    -------
    Mismatch or None
        None if the mask fits, or is None.
    """
    return first_mismatch(space, mask, "mask", _why_leaf_unfit, optional=True)


def why_not_playable(space: Space, mask: Any, *, running: bool) -> Mismatch | None:
    """
    The first leaf of a mask that allows padding, or allows no action while the episode is running.

    The mask has the right shapes and dtypes: `why_unfit` returns None for it.
    """
    check_leaf = partial(_why_leaf_not_playable, running)
    return first_mismatch(space, mask, "mask", check_leaf, optional=True)


def _why_leaf_unfit(space: Space, mask: Any, path: str) -> Mismatch | None:
    got = describe(mask)
    if not isinstance(space, ArraySpace):  # a user's own space may have masks of any form
        kinds = {name: jnp.result_type(leaf) for name, leaf in leaves(mask, path).items()}
        wrong = [name for name, dtype in kinds.items() if dtype != np.bool_]
        return Mismatch(wrong[0], "to be bool", str(kinds[wrong[0]])) if wrong else None
    if (shape := mask_shape(space)) is None:
        return Mismatch(path, f"to be None, since {space} has no masks", got)
    expected = f"bool[{','.join(map(str, shape))}]"
    return None if got == expected else Mismatch(path, f"to be {expected}", got)


def _why_leaf_not_playable(running: bool, space: Space, mask: Any, path: str) -> Mismatch | None:
    if not isinstance(space, ArraySpace):
        return None
    values = to_numpy(mask)
    exist = not_padding(space)
    if exist is not None and (values & ~exist).any():
        return Mismatch(path, "to be False where it is padded", "True there")
    if running and not values.any(axis=-1).all():
        return Mismatch(path, "to allow at least one action while the episode runs", "none")
    return None
