"""A pytree of arrays as one flat array of each dtype, and back on the host."""

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np


class Place(NamedTuple):
    """Where a leaf lies: in which flat array, from where to where, and its shape."""

    which: int
    begin: int
    end: int
    shape: tuple[int, ...]


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
    """A flat array for each dtype; PRNG keys as their bits."""
    leaves, treedef = cast(Any, jax.tree.flatten(tree))
    leaves = [without_keys(x) for x in leaves]
    dtypes = list(dict.fromkeys(x.dtype for x in leaves))
    parts: list[list[jax.Array]] = [[] for _ in dtypes]
    places, ends = list[Place](), [0 for _ in dtypes]
    for x in leaves:
        which = dtypes.index(x.dtype)
        begin, ends[which] = ends[which], ends[which] + x.size
        places.append(Place(which, begin, ends[which], x.shape))
        parts[which].append(x.ravel())
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
    return jax.tree.unflatten(
        treedef, [flat[which][begin:end].reshape(shape) for which, begin, end, shape in places]
    )


def without_keys(x: Any) -> jax.Array:
    """An array; of PRNG keys, their bits."""
    x = jnp.asarray(x)
    return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x
