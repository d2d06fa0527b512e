"""Spaces and elements in flat form, and the element of a space that is closest to zero."""

from collections.abc import Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax.spaces.array import ArraySpace
from envrax.spaces.base import Space, canonical, kind
from envrax.spaces.box import Box
from envrax.spaces.composite import map_leaves
from envrax.spaces.discrete import Discrete, MultiBinary, MultiDiscrete


def flat_box(space: Space) -> Box:
    """
    The `Box` of the vectors that `flatten` returns for a space.

    Raises
    ------
    TypeError
        If the space contains one that is not of envrax, or no dtype holds all its integers.
    """
    boxes = [_flat_box(leaf) for leaf in _leaves(space)]
    if not boxes:
        return Box(0.0, 0.0, 0)
    dtype = common_dtype([box.dtype for box in boxes])
    if len(boxes) == 1:
        return boxes[0]
    # Each bound as its own dtype holds it, then in the common one: NumPy knows none for bfloat16.
    bounds = [np.broadcast_to(box.limits(), (2, *box.shape)).astype(dtype) for box in boxes]
    low, high = np.concatenate(bounds, axis=1)
    return Box(low, high, low.shape, dtype)


def flatten(space: Space, x: Any) -> jax.Array:
    """
    An element as one vector. `unflatten` makes the element of it again.

    The entries of a `Dict` are in the order of its sorted keys. Each entry of a `Discrete` or
    `MultiDiscrete` becomes one-hot. To flatten a batch, map over it with `jax.vmap`.

    Parameters
    ----------
    space : Space
        The space, which may be nested.
    x : pytree of array-like
        An element of it.

    Returns
    -------
    jax.Array
        A vector of the dtype of the space. If the space has several dtypes and one of them is a
        float, it is float32, or float64 if one of them is float64. Integers above 2**24 are rounded
        in float32.

    Raises
    ------
    TypeError
        If the space has several integer dtypes, and no dtype of JAX holds all their values.

    Examples
    --------
    >>> from envrax.spaces import Box, Dict, Discrete, flatten
    >>> space = Dict(choice=Discrete(3), place=Box(0.0, 1.0, (2,)))
    >>> flatten(space, {"choice": 1, "place": [0.5, 1.0]}).tolist()
    [0.0, 1.0, 0.0, 0.5, 1.0]
    """
    vectors: list[Any] = jax.tree.leaves(map_leaves(_flat_leaf, space, x))
    if not vectors:
        return jnp.zeros(0, jnp.float32)
    dtype = canonical(common_dtype([leaf.dtype for leaf in _leaves(space)]))
    return jnp.concatenate([vector.astype(dtype) for vector in vectors])


def unflatten(space: Space, flat: Any) -> Any:
    """
    The element that `flatten` made a vector of, bit for bit where the vector could hold it.

    Any other vector is legal too, such as the output of a network. An entry of a `Discrete` or
    `MultiDiscrete` is the choice with the greatest number, the first of equal ones; one of a
    `MultiBinary` is 1 from 0.5 on. Other integers are rounded to the nearest. To unflatten a batch,
    map over it with `jax.vmap`.

    Parameters
    ----------
    space : Space
        The space, which may be nested.
    flat : array-like
        A vector as long as those of `flatten`, of any dtype.

    Returns
    -------
    pytree of jax.Array
        An element, with the shapes and dtypes of the space. Numbers outside the bounds of a `Box`
        are not clipped.

    Raises
    ------
    ValueError
        If the vector has another shape.

    Examples
    --------
    >>> from envrax.spaces import Box, Dict, Discrete, unflatten
    >>> space = Dict(choice=Discrete(3), place=Box(0.0, 1.0, (2,)))
    >>> x = unflatten(space, [0.0, 0.9, 0.1, 0.5, 1.0])
    >>> x["choice"].item(), x["place"].tolist()
    (1, [0.5, 1.0])
    """
    flat = jnp.asarray(flat)
    sizes = [_flat_size(leaf) for leaf in _leaves(space)]
    expected = (sum(sizes),)
    if flat.shape != expected:
        raise ValueError(
            f"unflatten: expected a vector of shape {expected} for {space}; got {flat.shape}. "
            "Map over a batch: `jax.vmap(partial(unflatten, space))(flat)`."
        )
    ends = np.cumsum(sizes, dtype=int)[:-1]
    vectors = iter(jnp.split(flat, ends))
    return map_leaves(lambda leaf: _element(leaf, next(vectors)), space)


def reshaped(box: Box, shape: tuple[int, ...]) -> Box:
    """A `Box` with another shape, of the same size and with the same bounds."""
    given: tuple[Any, Any] = box.low, box.high
    low, high = (b if np.isscalar(b) else np.reshape(b, shape) for b in given)
    return Box(cast(Any, low), cast(Any, high), shape, box.dtype)


def common_dtype(dtypes: Sequence[Any]) -> np.dtype[Any]:
    """
    The dtype that holds the numbers of all `dtypes`.

    If they differ and one is a float, it is float32, or float64 if that is among them.
    """
    distinct = [*dict.fromkeys(dtypes)]
    if len(distinct) == 1:
        return distinct[0]
    if any(kind(dtype) == "float" for dtype in distinct):
        return np.dtype(np.float64 if np.dtype(np.float64) in distinct else np.float32)
    common = canonical(np.result_type(*distinct))
    # An integer that does not fit would wrap around.
    if not all(np.can_cast(dtype, common) for dtype in distinct):
        got = " and ".join(map(str, distinct))
        raise TypeError(f"expected integers that one dtype of JAX can hold; got {got}.")
    return common


def zero_element(space: Space) -> Any:
    """The element of a space that is closest to zero."""
    return map_leaves(_zero_leaf, space)


def _zero_leaf(space: Space) -> Any:
    if isinstance(space, ArraySpace):
        return jnp.full(space.shape, np.clip(0, *space.limits()), canonical(space.dtype))
    return jax.tree.map(lambda d, shape: jnp.zeros(shape, canonical(d)), space.dtype, space.shape)


def _leaves(space: Space) -> list[Any]:
    return jax.tree.leaves(map_leaves(lambda leaf: leaf, space))


def _flat_leaf(space: Space, x: Any) -> jax.Array:
    flat = jnp.ravel(jnp.asarray(x))
    if not isinstance(space, Discrete | MultiDiscrete):
        return flat
    entries, values = _choices(space)
    return flat[entries] == values


def _element(space: Space, vector: Any) -> Any:
    if isinstance(space, Discrete | MultiDiscrete):
        vector = jnp.argmax(vector[_places(space)], axis=-1)
    elif isinstance(space, MultiBinary):
        vector = vector.astype(jnp.float32) >= jnp.float32(0.5)
    elif kind(vector.dtype) == "float" and kind(space.dtype) != "float":
        vector = jnp.round(vector)
    return vector.astype(canonical(space.dtype)).reshape(space.shape)


def _places(space: Discrete | MultiDiscrete) -> Any:
    """
    For each entry, the places of its choices in the one-hot vector.

    The row of an entry with fewer choices than others ends with its first place, which `argmax`
    never takes in place of the first.
    """
    counts = _counts(space)
    starts = np.cumsum(counts) - counts
    choices = np.arange(int(counts.max()))
    return starts[:, None] + np.where(choices < counts[:, None], choices, 0)


def _flat_size(space: Space) -> int:
    return int(_counts(space).sum()) if isinstance(space, Discrete | MultiDiscrete) else space.size


def _counts(space: Discrete | MultiDiscrete) -> Any:
    """The number of choices of each entry."""
    return np.ravel(space.n if isinstance(space, Discrete) else space.nvec)


def _choices(space: Discrete | MultiDiscrete) -> tuple[Any, Any]:
    """For each place of the one-hot vector: the index of its entry, and the value it stands for."""
    counts = _counts(space)
    values = np.arange(counts.max(), dtype=canonical(space.dtype))
    exist = values < counts[:, None]
    return np.nonzero(exist)[0], np.broadcast_to(values, exist.shape)[exist]


def _flat_box(space: Space) -> Box:
    if isinstance(space, Box):
        return reshaped(space, (space.size,))
    if isinstance(space, Discrete | MultiDiscrete):
        return Box(0, 1, (_choices(space)[0].size,), space.dtype)
    if isinstance(space, ArraySpace):
        low, high = (x.item() if x.size == 1 else x for x in space.limits())
        return reshaped(Box(low, high, space.shape, space.dtype), (space.size,))
    raise TypeError(f"expected only spaces of envrax; got {space}.")
