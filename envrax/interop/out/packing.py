"""A pytree of arrays packed into one flat array per width, and unpacked on the host."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.keys import is_key

SMALL_BYTES = 8192
"""Up to this size, a copy of an array is faster than one more array that `jit` takes or returns."""


class LeafPlace(NamedTuple):
    """
    The place of a leaf in the flat arrays, and its type.

    Attributes
    ----------
    array : int
        Index of the flat array.
    begin, end : int
        The slice of that array.
    shape, dtype
        Of the leaf; of PRNG keys, those of their bits.
    key_impl : Any
        The implementation of PRNG keys; None for other arrays.
    """

    array: int
    begin: int
    end: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    key_impl: Any


@partial(jax.tree_util.register_dataclass, data_fields=["flat"], meta_fields=["layout"])
@dataclass
class Packed:
    """
    The flat arrays of a pytree, with the places of its leaves as static data.

    Every array that `jit` returns costs a fixed time, far more than the copy of a small array. A
    step of CartPole that returns six arrays would spend most of its time on that.
    """

    flat: list[Any]
    layout: tuple[Any, tuple[LeafPlace, ...]]

    def __reduce__(self) -> tuple[Any, ...]:
        treedef, places = self.layout  # a treedef cannot be pickled
        return _unpickle, (self.flat, jax.tree.unflatten(treedef, range(len(places))), places)


def _unpickle(flat: Any, tree: Any, places: Any) -> Packed:
    return Packed(flat, (jax.tree.structure(tree), places))


def pack(tree: Any, small: float = math.inf) -> Packed:
    """
    Pack a tree: a flat array of unsigned integers for each width of dtypes; PRNG keys as bits.

    A leaf of more than `small` bytes gets a flat array of its own.
    """
    leaves, treedef = cast(Any, jax.tree.flatten(tree))
    groups: dict[Any, list[jax.Array]] = {}
    places: list[LeafPlace] = []
    for i, leaf in enumerate(leaves):
        is_key_array = isinstance(leaf, jax.Array) and is_key(leaf)
        key_impl = jax.random.key_impl(leaf) if is_key_array else None
        x = keys_as_bits(leaf)
        raw = _as_unsigned(x)
        group_name = raw.dtype if raw.nbytes <= small else i
        group = groups.setdefault(group_name, [])
        begin = sum(part.size for part in group)
        end = begin + raw.size
        group.append(raw.ravel())
        array = list(groups).index(group_name)
        places.append(LeafPlace(array, begin, end, x.shape, np.dtype(x.dtype), key_impl))
    flat = [x[0] if len(x) == 1 else jnp.concatenate(x) for x in groups.values()]
    return Packed(flat, (treedef, tuple(places)))


@partial(jax.jit, inline=True)  # pyright: ignore[reportUnknownMemberType]
def unpack_on_device(packed: Packed) -> Any:
    """The tree that was packed, of JAX arrays and PRNG keys."""
    treedef, places = packed.layout
    return jax.tree.unflatten(treedef, [_jax_leaf(packed.flat, place) for place in places])


def unpack(packed: Packed) -> Any:
    """
    The tree that was packed, as NumPy arrays, which are slices of a copy and may be edited.

    From a GPU or TPU all flat arrays are copied at once, by one `jax.device_get`.
    """
    # On a CPU it takes as long as half a step, and may return the memory of the arrays themselves.
    on_cpu = all(device.platform == "cpu" for device in packed.flat[0].devices())
    flat = [np.array(x) for x in (packed.flat if on_cpu else jax.device_get(packed.flat))]
    treedef, places = packed.layout
    return jax.tree.unflatten(treedef, [_numpy_leaf(flat, place) for place in places])


def keys_as_bits(x: Any) -> jax.Array:
    """A leaf as an array; PRNG keys as their bits."""
    x = jnp.asarray(x)
    return jax.random.key_data(x) if is_key(x) else x


def _as_unsigned(x: jax.Array) -> jax.Array:
    """Unsigned integers with the same bits; bools, of which there are few, have 32 bits each."""
    if x.dtype == jnp.bool_:
        return x.astype(jnp.uint32)
    info: Any = jnp.iinfo if jnp.issubdtype(x.dtype, jnp.integer) else jnp.finfo
    width = 8 * x.dtype.itemsize
    if info(x.dtype).bits != width:  # complex numbers, and such as int4
        return x
    return jax.lax.bitcast_convert_type(x, f"uint{width}")


def _jax_leaf(flat: list[jax.Array], place: LeafPlace) -> Any:
    raw = flat[place.array][place.begin : place.end]
    dtype = place.dtype
    if dtype == jnp.bool_:
        return raw.reshape(place.shape) != 0
    x = raw if raw.dtype == dtype else jax.lax.bitcast_convert_type(raw, dtype)
    x = x.reshape(place.shape)
    wrap_key_data: Any = jax.random.wrap_key_data
    return x if place.key_impl is None else wrap_key_data(x, impl=place.key_impl)


def _numpy_leaf(flat: list[np.ndarray[Any, Any]], place: LeafPlace) -> np.ndarray[Any, Any]:
    raw = flat[place.array][place.begin : place.end]
    typed = raw.astype(np.bool_) if place.dtype == np.bool_ else raw.view(place.dtype)
    return typed.reshape(place.shape)
