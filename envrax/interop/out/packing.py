"""`Packing`: a pytree of arrays as one flat array of each dtype, and back on the host."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


class Packing:
    """
    Packs pytrees of one kind; learns that kind when `pack` is traced.

    To hand an array out costs a fixed time, far more than to copy a small one: a step of CartPole
    that returns six arrays spends most of it there. `unpack` gives NumPy arrays that are slices of
    fresh memory: they may be edited, and no state sees it.
    """

    def __init__(self) -> None:
        self._treedef: Any = None
        self._places: list[tuple[int, slice, tuple[int, ...]]] = []

    def pack(self, tree: Any) -> list[jax.Array]:
        """A flat array for each dtype. To be called under `jit`, or always outside."""
        leaves, self._treedef = jax.tree.flatten(tree)
        leaves = [_without_keys(x) for x in leaves]
        dtypes = list(dict.fromkeys(x.dtype for x in leaves))
        parts: list[list[jax.Array]] = [[] for _ in dtypes]
        self._places, ends = [], [0 for _ in dtypes]
        for x in leaves:
            which = dtypes.index(x.dtype)
            begin, ends[which] = ends[which], ends[which] + x.size
            self._places.append((which, slice(begin, ends[which]), x.shape))
            parts[which].append(x.ravel())
        return [x[0] if len(x) == 1 else jnp.concatenate(x) for x in parts]

    def unpack(self, packed: list[jax.Array]) -> Any:
        """The tree again, as NumPy arrays, after one `jax.device_get`."""
        # What `device_get` gives on a CPU may be the memory of the arrays themselves.
        flat = [np.array(x) for x in jax.device_get(packed)]
        leaves = [flat[which][part].reshape(shape) for which, part, shape in self._places]
        return jax.tree.unflatten(self._treedef, leaves)


def _without_keys(x: Any) -> jax.Array:
    x = jnp.asarray(x)
    return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x
