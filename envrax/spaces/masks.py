"""Masks of legal elements: their shape, and draws among the legal ones."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.spaces.base import Space, is_mapping, kind


def mask_shape(space: Space) -> Any:
    """
    Shape of a mask of the legal elements of a space.

    `(n,)` for a `Discrete`; `(*shape, largest n)` for a `MultiDiscrete`, where entries with fewer
    values are padded with False; `(*shape, 2)` for a `MultiBinary`; a container for a nested space,
    with None for a `Box` in it. None for a `Box`, but one of integers from 0 or of bools has the
    masks of the `MultiDiscrete` or `MultiBinary` with the same elements.
    """
    children: Any = getattr(space, "spaces", None)
    if is_mapping(children):
        return {name: mask_shape(child) for name, child in children.items()}
    if children is not None:
        return tuple(mask_shape(child) for child in children)
    bounds: Any = getattr(space, "_bounds", None)
    if bounds is None or kind(space.dtype) == "float" or bounds[0].any():
        return None
    return (*space.shape, int(bounds[1].max()) + 1)


def existing(space: Space) -> np.ndarray | None:
    """
    The entries of a mask of an array space that are not padding.

    It broadcasts against the mask. None if there is no padding.
    """
    highest: Any = getattr(space, "_bounds")[1]  # noqa: B009  # private to the package
    if highest.min() == highest.max():
        return None
    return np.arange(int(highest.max()) + 1) <= highest[..., None]


def legal(space: Space, mask: Any) -> jax.Array:
    """
    The mask of a space of integers, or an error.

    Raises
    ------
    ValueError
        If it is not bool, or of another shape.
    TypeError
        If the space has no masks.
    """
    who = f"{type(space).__name__}.sample"
    shape = mask_shape(space)
    if shape is None:
        raise TypeError(
            f"{who}: expected no mask, since {space} has no countable elements; got one. Pass None."
        )
    given = None if is_mapping(mask) else jnp.asarray(mask)
    if given is None or (given.shape, given.dtype) != (shape, jnp.bool_):
        got = "a dict" if given is None else f"{given.shape} {given.dtype}"
        raise ValueError(
            f"{who}: expected a mask of shape {shape}, bool; got {got}. Compare, as in `mask > 0`; "
            "map over a batch: `jax.vmap(space.sample)(rngs, masks)`."
        )
    return given


def draw_legal(rng: jax.Array, mask: jax.Array, exist: np.ndarray | None) -> jax.Array:
    """
    Draw an index of the last axis of `mask`, uniformly among those that are True.

    Where none is, among all that `exist`; None says that all do.
    """
    if exist is not None:
        mask = mask & exist
    none = ~mask.any(axis=-1, keepdims=True)
    mask = mask | (none if exist is None else none & exist)
    rank = jnp.cumsum(mask, axis=-1, dtype=jnp.int32)
    drawn = jax.random.randint(rng, mask.shape[:-1], 0, rank[..., -1], jnp.int32)
    return jnp.argmax(rank > drawn[..., None], axis=-1)
