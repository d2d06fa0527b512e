"""A pytree of arrays as one flat array, or as few as there are widths, and back on the host."""

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np


class Place(NamedTuple):
    """Where a leaf lies: in which flat array, from where to where, its shape and its dtype."""

    which: int
    begin: int
    end: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@jax.tree_util.register_pytree_node_class
class Packed:
    """
    The flat arrays of a pytree. They know where its leaves lie, also when `jit` returns them.

    To hand an array out costs a fixed time, far more than to copy a small one: a step of CartPole
    that returns six arrays spends most of it there.
    """

    def __init__(self, flat: Any, layout: tuple[Any, tuple[Place, ...]]) -> None:
        self.flat, self.layout = flat, layout

    def tree_flatten(self) -> tuple[Any, Any]:
        return self.flat, self.layout

    @classmethod
    def tree_unflatten(cls, layout: Any, flat: Any) -> "Packed":
        return cls(flat, layout)


def pack(tree: Any) -> Packed:
    """A flat array of unsigned integers for each width of dtypes; PRNG keys as their bits."""
    leaves, treedef = cast(Any, jax.tree.flatten(tree))
    leaves = [without_keys(x) for x in leaves]
    bits = [_bits(x) for x in leaves]
    dtypes = list(dict.fromkeys(x.dtype for x in bits))
    parts: list[list[jax.Array]] = [[] for _ in dtypes]
    places, ends = list[Place](), [0 for _ in dtypes]
    for x, raw in zip(leaves, bits, strict=True):
        which = dtypes.index(raw.dtype)
        begin, ends[which] = ends[which], ends[which] + raw.size
        places.append(Place(which, begin, ends[which], x.shape, np.dtype(x.dtype)))
        parts[which].append(raw.ravel())
    flat = [x[0] if len(x) == 1 else jnp.concatenate(x) for x in parts]
    return Packed(flat, (treedef, tuple(places)))


def unpack(packed: Packed) -> Any:
    """
    The tree again, as NumPy arrays, after one `jax.device_get`.

    They are slices of fresh memory: they may be edited, and no state sees it.
    """
    # What `device_get` gives on a CPU may be the memory of the arrays themselves.
    flat = [np.array(x) for x in jax.device_get(packed.flat)]
    treedef, places = packed.layout
    return jax.tree.unflatten(treedef, [_leaf(flat, place) for place in places])


def without_keys(x: Any) -> jax.Array:
    """An array; of PRNG keys, their bits."""
    x = jnp.asarray(x)
    return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x


def _bits(x: jax.Array) -> jax.Array:
    """Unsigned integers of the same width with the same bits; bools, mostly flags, as 32 bits."""
    if x.dtype == jnp.bool_:
        return x.astype(jnp.uint32)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        x = jnp.stack([x.real, x.imag], axis=-1)
    return jax.lax.bitcast_convert_type(x, f"uint{8 * x.dtype.itemsize}")


def _leaf(flat: list[np.ndarray[Any, Any]], place: Place) -> np.ndarray[Any, Any]:
    raw = flat[place.which][place.begin : place.end]
    typed = raw.astype(np.bool_) if place.dtype == np.bool_ else raw.view(place.dtype)
    return typed.reshape(place.shape)
