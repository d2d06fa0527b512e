"""Spaces and elements in flat form, and the element of a space that is closest to zero."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax.spaces.array import ArraySpace
from envrax.spaces.base import Space, canonical, kind
from envrax.spaces.box import Box
from envrax.spaces.composite import Dict, Tuple
from envrax.spaces.discrete import Discrete, MultiDiscrete


def flat_box(space: Space) -> Box:
    """
    The `Box` of the vectors that `flatten` returns for a space.

    Raises
    ------
    TypeError
        If the space contains one that is not of envrax, or no dtype holds all its integers.
    """
    boxes = [_flat_box(leaf) for leaf in _leaves(space)]
    dtype = common_dtype([box.dtype for box in boxes])
    if len(boxes) == 1:
        return boxes[0]
    low = np.concatenate([np.broadcast_to(box.low, box.shape) for box in boxes])
    high = np.concatenate([np.broadcast_to(box.high, box.shape) for box in boxes])
    return Box(low, high, low.shape, dtype)


def flatten(space: Space, x: Any) -> jax.Array:
    """An element as one vector. A `Discrete` or `MultiDiscrete` entry becomes one-hot."""
    vectors = list(_flat_elements(space, x))
    dtype = canonical(common_dtype([leaf.dtype for leaf in _leaves(space)]))
    return jnp.concatenate([vector.astype(dtype) for vector in vectors])


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
    if isinstance(space, Dict):
        return {name: zero_element(child) for name, child in space.items()}
    if isinstance(space, Tuple):
        return tuple(zero_element(child) for child in space)
    if isinstance(space, ArraySpace):
        return jnp.full(space.shape, np.clip(0, *space.limits()), canonical(space.dtype))
    return jax.tree.map(lambda d, shape: jnp.zeros(shape, canonical(d)), space.dtype, space.shape)


def _leaves(space: Space) -> Iterator[Space]:
    if isinstance(space, Dict | Tuple):
        for child in space.values() if isinstance(space, Dict) else space:
            yield from _leaves(child)
    else:
        yield space


def _flat_elements(space: Space, x: Any) -> Iterator[jax.Array]:
    if isinstance(space, Dict):
        for name, child in space.items():
            yield from _flat_elements(child, x[name])
    elif isinstance(space, Tuple):
        for child, value in zip(space, x, strict=True):
            yield from _flat_elements(child, value)
    elif isinstance(space, Discrete | MultiDiscrete):
        entries, values = _choices(space)
        yield jnp.ravel(jnp.asarray(x))[entries] == values
    else:
        yield jnp.ravel(jnp.asarray(x))


def _choices(space: Discrete | MultiDiscrete) -> tuple[Any, Any]:
    """For each place of the one-hot vector: the index of its entry, and the value it stands for."""
    counts: Any = np.ravel(space.n if isinstance(space, Discrete) else space.nvec)
    values = np.arange(counts.max(), dtype=canonical(space.dtype))
    exist = values < counts[:, None]
    return np.nonzero(exist)[0], np.broadcast_to(values, exist.shape)[exist]


def _flat_box(space: Space) -> Box:
    if isinstance(space, Box):
        return reshaped(space, (space.size,))
    if isinstance(space, Discrete | MultiDiscrete):
        return Box(0, 1, (_choices(space)[0].size,), space.dtype)
    if isinstance(space, ArraySpace):
        return Box(0, 1, (space.size,), space.dtype)
    raise TypeError(f"expected only spaces of envrax; got {space}.")
