"""Masks of legal elements: their shape, their check, and draws among the legal elements."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.spaces.base import Space, describe, is_mapping, kind
from envrax.spaces.composite import map_leaves


def mask_shape(space: Space) -> Any:
    """
    Shape of a mask of the legal elements of a space.

    - `Discrete`: `(n,)`.
    - `MultiDiscrete`: `(*shape, largest n)`; entries with fewer values are padded with False.
    - `MultiBinary`: `(*shape, 2)`.
    - `Tuple`, `Dict`: a container of the shapes.
    - `Box`: None. But a `Box` of bools, or of integers that start at 0, has the masks of the
      `MultiBinary` or `MultiDiscrete` with the same elements.
    """
    return map_leaves(_leaf_shape, space)


def _leaf_shape(space: Space) -> tuple[int, ...] | None:
    bounds: Any = getattr(space, "_bounds", None)
    if bounds is None or kind(space.dtype) == "float" or bounds[0].any():
        return None
    return (*space.shape, int(bounds[1].max()) + 1)


def not_padding(space: Space) -> np.ndarray | None:
    """
    Which entries of a mask of an array space are not padding; None if there is no padding.

    The result broadcasts against the mask.
    """
    highest: Any = getattr(space, "_bounds")[1]  # noqa: B009  # private to the package
    if highest.min() == highest.max():
        return None
    return np.arange(int(highest.max()) + 1) <= highest[..., None]


def with_full_masks(space: Space, mask: Any) -> Any:
    """A mask with one that says that all is legal in place of None, where the space has masks."""
    return map_leaves(_full_mask, space, mask)


def _full_mask(space: Space, mask: Any) -> Any:
    shape = mask_shape(space)
    if mask is not None or shape is None:
        return mask
    exist = not_padding(space)
    return jnp.broadcast_to(jnp.asarray(True if exist is None else exist), shape)


def all_legal_if(free: jax.Array, space: Space, mask: Any) -> Any:
    """A mask in which all that exists is legal if `free`. What has no mask stays without one."""
    return None if mask is None else map_leaves(partial(_all_legal_if, free), space, mask)


def _all_legal_if(free: jax.Array, space: Space, mask: Any) -> Any:
    exist = _full_mask(space, None)  # None for a space of one's own, with masks of any form
    legal = free if exist is None else free & exist
    return jax.tree.map(lambda x: x | legal, mask)


def require_mask(space: Space, mask: Any) -> jax.Array:
    """
    A mask of an array space, checked.

    Raises
    ------
    ValueError
        If the mask is not bool, or has another shape than masks of the space.
    TypeError
        If the space has no masks.
    """
    who = f"{type(space).__name__}.sample"
    shape = mask_shape(space)
    if shape is None:
        raise TypeError(f"{who}: expected no mask, since {space} has no masks; got one. Pass None.")
    expected = f"{who}: expected a mask of shape {shape}, bool; got"
    try:
        given = None if is_mapping(mask) else jnp.asarray(mask)
    except (TypeError, ValueError) as error:  # rows of different lengths, as Gymnasium's
        advice = "Pad shorter rows with False, and stack them."
        raise ValueError(f"{expected} {describe(mask)}. {advice}") from error
    if given is None or (given.shape, given.dtype) != (shape, jnp.bool_):
        got = "a dict" if given is None else describe(given)
        raise ValueError(
            f"{expected} {got}. Compare, as in `mask > 0`; map over a batch: "
            "`jax.vmap(space.sample)(rngs, masks)`."
        )
    return given


def draw_legal(rng: jax.Array, mask: jax.Array, exist: np.ndarray | None) -> jax.Array:
    """
    Draw an index of the last axis of `mask`, uniformly among its True entries.

    Where no entry is True, the draw is uniform among those that `exist`: all, if that is None.
    """
    if exist is not None:
        mask = mask & exist
    all_false = ~mask.any(axis=-1, keepdims=True)
    mask = mask | (all_false if exist is None else all_false & exist)
    rank = jnp.cumsum(mask, axis=-1, dtype=jnp.int32)
    drawn = jax.random.randint(rng, mask.shape[:-1], 0, rank[..., -1], jnp.int32)
    return jnp.argmax(rank > drawn[..., None], axis=-1)
