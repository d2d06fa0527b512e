"""A pytree of arrays packed into one flat array per width, and unpacked on the host."""

import math
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.keys import is_key

SMALL = 8192
"""Bytes up to which it is faster to copy an array than to pass it through `jit` on its own."""


class Place(NamedTuple):
    """
    The place of a leaf: its flat array, start and end there, its shape and its dtype.

    `impl` is the implementation of PRNG keys, of which the bits are kept; None for other arrays.
    """

    which: int
    begin: int
    end: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    impl: Any


@jax.tree_util.register_pytree_node_class
class Packed:
    """
    The flat arrays of a pytree, with the places of its leaves as static data.

    Every array that `jit` returns costs a fixed time, far more than the copy of a small one: a step
    of CartPole that returns six arrays would spend most of its time there.
    """

    def __init__(self, flat: Any, layout: tuple[Any, tuple[Place, ...]]) -> None:
        self.flat, self.layout = flat, layout

    def tree_flatten(self) -> tuple[Any, Any]:
        return self.flat, self.layout

    @classmethod
    def tree_unflatten(cls, layout: Any, flat: Any) -> "Packed":
        return cls(flat, layout)

    def __reduce__(self) -> tuple[Any, ...]:
        treedef, places = self.layout  # a treedef cannot be pickled
        return _packed, (self.flat, jax.tree.unflatten(treedef, range(len(places))), places)


def _packed(flat: Any, tree: Any, places: Any) -> Packed:
    return Packed(flat, (jax.tree.structure(tree), places))


def pack(tree: Any, small: float = math.inf) -> Packed:
    """
    A flat array of unsigned integers for each width of dtypes; PRNG keys as their bits.

    Leaves of more than `small` bytes have flat arrays of their own.
    """
    leaves, treedef = cast(Any, jax.tree.flatten(tree))
    groups: dict[Any, list[jax.Array]] = {}
    places: list[Place] = []
    for i, leaf in enumerate(leaves):
        x = without_keys(leaf)
        impl = None
        if isinstance(leaf, jax.Array) and is_key(leaf):
            impl = jax.random.key_impl(leaf)
        raw = _bits(x)
        key = raw.dtype if raw.nbytes <= small else i
        group = groups.setdefault(key, [])
        begin = sum(part.size for part in group)
        group.append(raw.ravel())
        which = list(groups).index(key)
        places.append(Place(which, begin, begin + raw.size, x.shape, np.dtype(x.dtype), impl))
    flat = [x[0] if len(x) == 1 else jnp.concatenate(x) for x in groups.values()]
    return Packed(flat, (treedef, tuple(places)))


@partial(jax.jit, inline=True)  # pyright: ignore[reportUnknownMemberType]
def unpack_on_device(packed: Packed) -> Any:
    """The tree again, of JAX arrays and PRNG keys."""
    treedef, places = packed.layout
    return jax.tree.unflatten(treedef, [_array(packed.flat, place) for place in places])


def unpack(packed: Packed) -> Any:
    """
    The tree again, as NumPy arrays, after one `jax.device_get`.

    They are slices of a copy, which may be edited.
    """
    # On a CPU `device_get` may return the memory of the arrays themselves.
    flat = [np.array(x) for x in jax.device_get(packed.flat)]
    treedef, places = packed.layout
    return jax.tree.unflatten(treedef, [_leaf(flat, place) for place in places])


def without_keys(x: Any) -> jax.Array:
    """An array; of PRNG keys, their bits."""
    x = jnp.asarray(x)
    return jax.random.key_data(x) if is_key(x) else x


def _bits(x: jax.Array) -> jax.Array:
    """Unsigned integers of the same width with the same bits; bools, mostly flags, as 32 bits."""
    if x.dtype == jnp.bool_:
        return x.astype(jnp.uint32)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        x = jnp.stack([x.real, x.imag], axis=-1)
    width = 8 * x.dtype.itemsize
    info: Any = jnp.iinfo if jnp.issubdtype(x.dtype, jnp.integer) else jnp.finfo
    if info(x.dtype).bits != width:  # such as those of int4
        return x
    return jax.lax.bitcast_convert_type(x, f"uint{width}")


def _array(flat: list[jax.Array], place: Place) -> Any:
    raw, dtype = flat[place.which][place.begin : place.end], place.dtype
    if jnp.issubdtype(dtype, jnp.complexfloating):
        parts = jax.lax.bitcast_convert_type(raw.reshape(*place.shape, 2), jnp.finfo(dtype).dtype)
        return jax.lax.complex(parts[..., 0], parts[..., 1])
    if dtype == jnp.bool_:
        return raw.reshape(place.shape) != 0
    x = jax.lax.bitcast_convert_type(raw, dtype).reshape(place.shape)
    wrapped: Any = jax.random.wrap_key_data
    return x if place.impl is None else wrapped(x, impl=place.impl)


def _leaf(flat: list[np.ndarray[Any, Any]], place: Place) -> np.ndarray[Any, Any]:
    raw = flat[place.which][place.begin : place.end]
    typed = raw.astype(np.bool_) if place.dtype == np.bool_ else raw.view(place.dtype)
    return typed.reshape(place.shape)
