"""The rule under `vmap` of a program that resets some of the slots."""

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from envrax._jax.mesh import is_sharded


def with_vmap_rule(
    one: Callable[..., Any], all_at_once: Callable[..., Any], select: Callable[..., Any]
) -> Callable[..., Any]:
    """
    A function `one(consts, last, ended, stepped)`, with a rule of its own for `vmap`.

    Parameters
    ----------
    one : callable
        The function without `vmap`.
    all_at_once : callable
        `(n, consts, last, ended, stepped)`: the results of n calls at once, with a leading axis n
        on all arguments but the constants.
    select : callable
        The same as `one` by a select. `vmap` maps it where `all_at_once` cannot be used: the
        constants differ between the n, n is 0, or the values are sharded over an Explicit mesh
        axis, along which JAX refuses to gather.
    """
    mapped = custom_vmap(one)

    @mapped.def_vmap
    def rule(n: int, is_mapped: list[Any], consts: Any, *slots: Any) -> Any:
        if any(jax.tree.leaves(is_mapped[0])) or n == 0 or is_sharded((consts, slots)):
            # `get` gives 0 for True, and None for False.
            axes = jax.tree.map({True: 0}.get, tuple(is_mapped))
            out: Any = jax.vmap(select, axes, axis_size=n)(consts, *slots)
        else:
            leaves, structure = cast(Any, jax.tree.flatten(slots))
            flags: list[bool] = jax.tree.leaves(tuple(is_mapped[1:]))
            pairs = zip(leaves, flags, strict=True)
            rows = [x if flag else jnp.broadcast_to(x, (n, *x.shape)) for x, flag in pairs]
            out = all_at_once(n, consts, *jax.tree.unflatten(structure, rows))
        all_mapped = [True] * len(jax.tree.leaves(out))
        return out, jax.tree.unflatten(jax.tree.structure(out), all_mapped)

    return mapped
