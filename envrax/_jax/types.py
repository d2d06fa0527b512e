"""Shapes, dtypes and names of the leaves of a pytree; tracers and weak types."""

from collections.abc import Callable
from typing import Any, cast

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import NamedSharding

from envrax._jax.keys import key_types


def output_types(function: Callable[[jax.Array], Any]) -> Any:
    """Shapes and dtypes of the result of a function of a PRNG key, such as `space.sample`."""
    return jax.eval_shape(function, key_types()[0])


def with_shardings(types: Any, shardings: Any) -> Any:
    """Shapes and dtypes with the shardings of the arrays that lie on a mesh."""
    leaves, structure = cast(Any, jax.tree.flatten(types))
    placed: list[Any] = []
    for x, layout in zip(leaves, jax.tree.leaves(shardings), strict=True):
        on_mesh = layout if isinstance(layout, NamedSharding) else None
        placed.append(jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=on_mesh))
    return jax.tree.unflatten(structure, placed)


def is_traced(tree: Any) -> bool:
    """Whether any leaf is a tracer."""
    found = False
    for leaf in jax.tree.leaves(tree):
        found = found or isinstance(leaf, Tracer)
    return found


def is_inside_jit() -> bool:
    """Whether the caller is traced by `jit` or by a loop, where each operation gives a tracer."""
    return isinstance(jax.device_put(np.int32(0)), Tracer)


_zero: Any = jax.jit(lambda: np.int32(0))


def is_inside_jit_quick() -> bool:
    """`is_inside_jit` for every step: ten times as quick, but the first call compiles a program."""
    return isinstance(_zero(), Tracer)


def same_types(a: Any, b: Any) -> bool:
    """Whether two pytrees have the same structure, shapes and dtypes."""
    if jax.tree.structure(a) != jax.tree.structure(b):
        return False
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
    return True


def leaf_types(tree: Any) -> dict[str, str]:
    """Name, dtype and shape of every leaf."""
    return {name: leaf_type(leaf) for name, leaf in named_leaves(tree).items()}


def named_leaves(tree: Any) -> dict[str, Any]:
    """The leaves by their names, such as "state.walls"."""
    leaves = cast(Any, jax.tree_util.tree_leaves_with_path(tree))
    return {leaf_name(path): leaf for path, leaf in leaves}


def leaf_type(x: Any) -> str:
    return f"{x.dtype}{list(x.shape)}"


def leaf_name(path: Any) -> str:
    """The keys joined by dots. A key with a dot stands in brackets, so that names are unique."""
    name = ""
    for entry in path:
        key = jax.tree_util.keystr((entry,), simple=True)
        if key and "." not in key and "[" not in key:
            name += f".{key}" if name else key
        else:
            name += f"[{key!r}]"
    return name
