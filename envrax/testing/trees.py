"""Pytrees told apart, leaf by leaf."""

from collections.abc import Iterator
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

RTOL, ATOL = 1e-4, 1e-5  # XLA fuses and reorders float arithmetic when it compiles


def leaves(tree: Any, name: str) -> dict[str, Any]:
    """The leaves by path, `state.pos`; `name` is that of the tree."""
    found = cast(Any, jax.tree_util.tree_leaves_with_path({name: tree}))
    return {jax.tree_util.keystr(path, simple=True, separator="."): x for path, x in found}


def form(x: Any) -> str:
    """Dtype and shape of a leaf, as JAX sees it; "weak" for what a Python scalar is."""
    try:
        aval: Any = jax.typeof(x)
    except TypeError:
        return f"a {type(x).__name__}"
    weak = "weak " if getattr(aval, "weak_type", False) else ""
    return f"{weak}{aval.dtype}[{','.join(map(str, aval.shape))}]"


def strong_form(x: Any) -> str:
    """The form but for the weak type."""
    return form(x).removeprefix("weak ")


def forms(tree: Any, name: str) -> dict[str, str]:
    """The forms by path."""
    return {path: form(leaf) for path, leaf in leaves(tree, name).items()}


def other_forms(ours: dict[str, str], theirs: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Path, our form and their form of each leaf that is not alike."""
    for path in dict.fromkeys([*ours, *theirs]):
        pair = ours.get(path, "no such leaf"), theirs.get(path, "no such leaf")
        if pair[0] != pair[1]:
            yield path, *pair


def plain(leaf: Any) -> Any:
    """A leaf as NumPy array, PRNG keys as their bits."""
    if is_key(leaf):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)


def host(tree: Any) -> Any:
    """A pytree of NumPy arrays."""
    return jax.tree.map(plain, tree)


def is_key(x: Any) -> bool:
    """Whether a leaf holds typed PRNG keys."""
    return hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def differences(
    ours: Any, theirs: Any, name: str, *, exact: bool = False
) -> Iterator[tuple[str, str, str]]:
    """
    Path, our value and their value of each leaf that differs.

    Floats may differ by rounding unless `exact`; all else, keys among it, is compared to the bit.
    """
    mine, yours = leaves(ours, name), leaves(theirs, name)
    for path in dict.fromkeys([*mine, *yours]):
        if path not in mine or path not in yours:
            here = ["a leaf" if path in side else "no such leaf" for side in (mine, yours)]
            yield path, here[0], here[1]
            continue
        a, b = plain(mine[path]), plain(yours[path])
        if not _same(a, b, exact):
            at = np.argwhere(~_close(a, b, exact))[0] if a.shape == b.shape and a.ndim else ()
            yield path, _brief(a, at), _brief(b, at)


def any_differences(
    ours: dict[str, Any], theirs: dict[str, Any], *, exact: bool = False
) -> Iterator[tuple[str, str, str]]:
    """`differences` of several trees by name, those of `ours`."""
    for name, tree in ours.items():
        yield from differences(tree, theirs[name], name, exact=exact)


def lent(tree: Any) -> Any:
    """The same leaves in containers of their own, for code that may edit what it is given."""
    return jax.tree.map(lambda x: x.copy() if isinstance(x, np.ndarray) else x, tree)


def stack(trees: list[Any]) -> Any:
    """Several trees of one structure, stacked."""

    def together(*xs: Any) -> Any:
        return jnp.stack(xs) if is_key(xs[0]) else np.stack(list(map(plain, xs)))

    return jax.tree.map(together, *trees)


def rows(tree: Any, at: int | slice) -> Any:
    """One row of every leaf, or several, as JAX arrays."""

    # NumPy takes it out: JAX would compile a program for every shape.
    def row(x: Any) -> Any:
        return x[at] if is_key(x) else jnp.asarray(plain(x)[at])

    return jax.tree.map(row, tree)


def _same(a: Any, b: Any, exact: bool) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool(np.all(_close(a, b, exact)))


def _close(a: Any, b: Any, exact: bool) -> Any:
    if a.dtype != b.dtype:
        return np.zeros(a.shape, bool)
    if jnp.issubdtype(a.dtype, np.inexact):
        tolerances = (0.0, 0.0) if exact else (RTOL, ATOL)
        wide: Any = np.complex128 if a.dtype.kind == "c" else np.float64  # bfloat16 for one
        return np.isclose(a.astype(wide), b.astype(wide), *tolerances, equal_nan=True)
    return a == b


def _brief(x: Any, at: Any) -> str:
    if x.ndim and len(at) == x.ndim:
        return f"{x[tuple(at)]} at [{', '.join(map(str, at))}]"
    return f"{x} ({x.dtype}{list(x.shape)})" if x.size == 1 else f"{x.dtype}{list(x.shape)}"
