"""Pytrees compared leaf by leaf."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.keys import is_key
from envrax._jax.types import named_leaves

# XLA fuses and reorders float arithmetic when it compiles. Where large terms cancel, as in physics,
# the error is relative to those terms: the last tolerance is relative to an array's largest value.
RTOL = 1e-4
ATOL = 1e-5
RTOL_OF_LARGEST = 1e-6


def leaves(tree: Any, name: str) -> dict[str, Any]:
    """The leaves by path, such as `state.pos`; `name` is the name of the tree."""
    return named_leaves({name: tree})


def describe(x: Any) -> str:
    """Dtype and shape of a leaf as JAX sees it, such as `float32[2]`."""
    return describe_weak(x).removeprefix("weak ")


def describe_weak(x: Any) -> str:
    """As `describe`, but a weakly typed leaf, such as a Python number, is a `weak float32[]`."""
    try:
        aval: Any = jax.typeof(x)
    except TypeError:
        return f"a {type(x).__name__}"
    weak = "weak " if getattr(aval, "weak_type", False) else ""
    return f"{weak}{describe_as(aval.dtype, aval.shape)}"


def type_differences(
    ours: dict[str, Any], theirs: dict[str, Any]
) -> Iterator[tuple[str, str, str]]:
    """Path and both descriptions of each leaf whose dtype, shape or weak type differs."""
    mine = _descriptions(ours)
    yours = _descriptions(theirs)
    for path in dict.fromkeys([*mine, *yours]):
        pair = mine.get(path, "no such leaf"), yours.get(path, "no such leaf")
        if pair[0] != pair[1]:
            yield path, *pair


def to_numpy(leaf: Any) -> Any:
    """A leaf as NumPy array, PRNG keys as their bits."""
    if is_key(leaf):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)


def tree_to_numpy(tree: Any) -> Any:
    """A pytree of NumPy arrays."""
    return jax.tree.map(to_numpy, tree)


def value_differences(
    ours: dict[str, Any], theirs: dict[str, Any], *, exact: bool = False
) -> Iterator[tuple[str, str, str]]:
    """
    Path and both values of each leaf that differs, for the trees that `ours` names.

    Floats may differ by rounding unless `exact`. All else, PRNG keys too, is compared to the bit.
    """
    for name, tree in ours.items():
        mine = leaves(tree, name)
        yours = leaves(theirs[name], name)
        for path in dict.fromkeys([*mine, *yours]):
            if path not in mine or path not in yours:
                here = ["a leaf" if path in side else "no such leaf" for side in (mine, yours)]
                yield path, here[0], here[1]
                continue
            a = to_numpy(mine[path])
            b = to_numpy(yours[path])
            if not _same(a, b, exact):
                at = np.argwhere(~_close(a, b, exact))[0] if a.shape == b.shape and a.ndim else ()
                yield path, _brief(a, at), _brief(b, at)


def copy_containers(tree: Any) -> Any:
    """A copy for code that may edit its arguments; JAX arrays need none."""
    return jax.tree.map(lambda x: x.copy() if isinstance(x, np.ndarray) else x, tree)


def stack(trees: list[Any]) -> Any:
    """Several trees of one structure, stacked."""

    def together(*xs: Any) -> Any:
        return jnp.stack(xs) if is_key(xs[0]) else np.stack(list(map(to_numpy, xs)))

    return jax.tree.map(together, *trees)


def take(tree: Any, at: int | slice) -> Any:
    """One row of every leaf, or several, as JAX arrays."""

    # By NumPy, since JAX would compile a program for every shape.
    def row(x: Any) -> Any:
        return x[at] if is_key(x) else jnp.asarray(to_numpy(x)[at])

    return jax.tree.map(row, tree)


def _descriptions(trees: dict[str, Any]) -> dict[str, str]:
    found = [leaf for name, tree in trees.items() for leaf in leaves(tree, name).items()]
    return {path: describe_weak(x) for path, x in found}


def describe_as(dtype: Any, shape: Any) -> str:
    """Dtype and shape as `describe` writes them."""
    return f"{dtype}[{','.join(map(str, shape))}]"


def _same(a: Any, b: Any, exact: bool) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool(np.all(_close(a, b, exact)))


def _close(a: Any, b: Any, exact: bool) -> Any:
    if a.dtype != b.dtype:
        return np.zeros(a.shape, bool)
    if jnp.issubdtype(a.dtype, np.inexact):
        wide: Any = np.complex128 if a.dtype.kind == "c" else np.float64  # NumPy has no bfloat16
        a = a.astype(wide)
        b = b.astype(wide)
        largest = np.max(np.abs(b), initial=0, where=np.isfinite(b))
        tolerances = (0, 0) if exact else (RTOL, max(ATOL, RTOL_OF_LARGEST * largest))
        return np.isclose(a, b, *tolerances, equal_nan=True)
    return a == b


def _brief(x: Any, at: Any) -> str:
    if x.ndim and len(at) == x.ndim:
        return f"{x[tuple(at)]} at [{', '.join(map(str, at))}]"
    return f"{x} ({x.dtype}{list(x.shape)})" if x.size == 1 else f"{x.dtype}{list(x.shape)}"
