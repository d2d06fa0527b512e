"""Pytrees described, converted, and compared leaf by leaf."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.keys import is_key
from envrax._jax.types import named_leaves
from envrax.wrappers.vector.statistics import RunningStatistics

# XLA reorders float arithmetic, and leaves out roundings to dtypes of 16 bits. Where large terms
# cancel, as in physics, the rounding error is relative to those terms. The last tolerance is
# therefore so many `eps` of the dtype, relative to the array's largest value.
RTOL = 1e-4
ATOL = 1e-5
EPS_OF_LARGEST = 8
FLOAT32_EPS = float(jnp.finfo(jnp.float32).eps)


def leaves(tree: Any, name: str) -> dict[str, Any]:
    """The leaves of a tree called `name`, by path, such as `state.pos`."""
    return named_leaves({name: tree})


def describe(x: Any) -> str:
    """Dtype and shape of a leaf in JAX, such as `float32[2]`."""
    return describe_weak(x).removeprefix("weak ")


def describe_weak(x: Any) -> str:
    """As `describe`, but a weakly typed leaf, such as a Python number, is a `weak float32[]`."""
    try:
        aval: Any = jax.typeof(x)
    except TypeError:
        return f"a {type(x).__name__}"
    weak = "weak " if getattr(aval, "weak_type", False) else ""
    return f"{weak}{describe_as(aval.dtype, aval.shape)}"


def describe_as(dtype: Any, shape: Any) -> str:
    """Dtype and shape as `describe` writes them."""
    return f"{dtype}[{','.join(map(str, shape))}]"


def type_differences(a: dict[str, Any], b: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Path and both descriptions of each leaf whose dtype, shape or weak type differs."""
    first = _descriptions(a)
    second = _descriptions(b)
    for path in dict.fromkeys([*first, *second]):
        pair = first.get(path, "no such leaf"), second.get(path, "no such leaf")
        if pair[0] != pair[1]:
            yield path, *pair


def to_numpy(leaf: Any) -> Any:
    """A leaf as a NumPy array; a PRNG key as its bits."""
    if is_key(leaf):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)


def tree_to_numpy(tree: Any) -> Any:
    """A pytree with every leaf as a NumPy array."""
    return jax.tree.map(to_numpy, tree)


def value_differences(
    a: dict[str, Any], b: dict[str, Any], eps: float = FLOAT32_EPS, *, exact: bool = False
) -> Iterator[tuple[str, str, str]]:
    """
    Path and both values of each leaf that differs, in the trees named by `a`.

    Unless `exact`, floats may differ by rounding, in float32 or a coarser dtype of this `eps`, and
    stored rounding errors of sums by all that they are. Everything else, such as a PRNG key, must
    be equal bit for bit.
    """
    for name, tree in a.items():
        first, second = (leaves(x if exact else _without_low(x), name) for x in (tree, b[name]))
        for path in dict.fromkeys([*first, *second]):
            if path not in first or path not in second:
                found = ["a leaf" if path in side else "no such leaf" for side in (first, second)]
                yield path, found[0], found[1]
                continue
            x = to_numpy(first[path])
            y = to_numpy(second[path])
            close = np.asarray(_close(x, y, 0 if exact else max(eps, FLOAT32_EPS)))
            if not np.all(close):
                at = np.argwhere(~close)[0] if close.ndim else ()
                yield path, _value_text(x, at), _value_text(y, at)


def _without_low(tree: Any) -> Any:
    def is_sum(x: Any) -> bool:
        return isinstance(x, RunningStatistics)

    return jax.tree.map(lambda x: x.replace(low=None) if is_sum(x) else x, tree, is_leaf=is_sum)


def copy_to_edit(tree: Any) -> Any:
    """A tree with new containers and NumPy arrays, for code that may edit its arguments."""
    return jax.tree.map(lambda x: x.copy() if isinstance(x, np.ndarray) else x, tree)


def edits_of(function: Callable[..., Any], args: dict[str, Any]) -> tuple[Any, str]:
    """The result of a call, and what it changed of its arguments, in words; "" if nothing."""
    given = named_leaves(args)
    copies = copy_to_edit(given)
    returned = function(*args.values())
    after = named_leaves(args)
    edited = [k for k in dict.fromkeys([*given, *after]) if given.get(k) is not after.get(k)]
    edited += [k for k, x in given.items() if _was_edited(x, copies[k])]
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(edited))
    return returned, f"a change of {names}" if names else ""


def stack(trees: list[Any]) -> Any:
    """Trees of one structure, stacked leaf by leaf."""

    def stack_leaves(*xs: Any) -> Any:
        return jnp.stack(xs) if is_key(xs[0]) else np.stack(list(map(to_numpy, xs)))

    return jax.tree.map(stack_leaves, *trees)


def take(tree: Any, at: Any) -> Any:
    """One row of every leaf, a slice of rows, or those of a mask, as JAX arrays."""

    # Indexed by NumPy: JAX would compile a program for every shape.
    def take_rows(x: Any) -> Any:
        return x[at] if is_key(x) else jnp.asarray(to_numpy(x)[at])

    return jax.tree.map(take_rows, tree)


def _descriptions(trees: dict[str, Any]) -> dict[str, str]:
    items = [leaf for name, tree in trees.items() for leaf in leaves(tree, name).items()]
    return {path: describe_weak(x) for path, x in items}


def _close(a: Any, b: Any, eps: float) -> Any:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if jnp.issubdtype(a.dtype, np.inexact):
        wide: Any = np.complex128 if a.dtype.kind == "c" else np.float64  # NumPy has no bfloat16
        a = a.astype(wide)
        b = b.astype(wide)
        largest = np.max(np.abs(b), initial=0, where=np.isfinite(b))
        tolerances = (RTOL, max(ATOL, EPS_OF_LARGEST * eps * largest)) if eps else (0, 0)
        return np.isclose(a, b, *tolerances, equal_nan=True)
    return a == b


def _value_text(x: Any, at: Any) -> str:
    if x.ndim and len(at) == x.ndim:
        return f"{x[tuple(at)]} at [{', '.join(map(str, at))}]"
    return f"{x} ({x.dtype}{list(x.shape)})" if x.size == 1 else f"{x.dtype}{list(x.shape)}"


def _was_edited(x: Any, copy: Any) -> bool:
    return isinstance(x, np.ndarray) and not np.array_equal(x, copy)
