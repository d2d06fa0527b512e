"""The check of a mask of slots."""

from typing import Any

import jax
import numpy as np


def require_mask(who: str, mask: Any, n_slots: int) -> Any:
    """
    A mask of slots as an array.

    Raises
    ------
    TypeError
        If it is not bool.
    ValueError
        If its shape is not `(n_slots,)`.
    """
    given = mask
    mask = mask if isinstance(mask, jax.Array) else np.array(mask)  # the caller may write to it
    if mask.dtype != np.bool_:
        got = given if mask.dtype == object else mask.dtype
        raise TypeError(
            f"{who}: expected a mask that is bool; got {got}. Pass `dones`, or a comparison."
        )
    if mask.shape != (n_slots,):
        raise ValueError(
            f"{who}: expected a mask of shape ({n_slots},); got {mask.shape}. Pass one bool for "
            "each slot."
        )
    return mask
