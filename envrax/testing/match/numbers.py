"""Pytrees with a leading axis: rows of them, and their numbers as columns of float64."""

from typing import Any

import jax
import numpy as np

from envrax._jax.types import named_leaves


def take(tree: Any, index: Any) -> Any:
    """Some rows of each leaf, or one, copied."""
    return jax.tree.map(lambda x: x[index].copy(), tree)


def join(trees: list[Any]) -> Any:
    """Trees joined along the leading axis."""
    return jax.tree.map(lambda *x: np.concatenate(x), *trees)


def where(mask: Any, a: Any, b: Any) -> Any:
    """Rows of one tree or of another."""
    return jax.tree.map(lambda x, y: np.where(mask.reshape(-1, *[1] * (x.ndim - 1)), x, y), a, b)


def matrix(tree: Any) -> np.ndarray:
    """All numbers of a tree: a row for each row of the tree."""
    flat = [x.reshape(len(x), -1) for x in jax.tree.leaves(tree)]
    return np.concatenate(flat, axis=1).astype(np.float64)


def columns(tree: Any) -> dict[str, np.ndarray]:
    """The columns of `matrix` by their names, such as "obs[1]", without PRNG keys."""
    found: dict[str, np.ndarray] = {}
    for path, x in named_leaves(tree).items():
        if not is_bits(x):
            for i in np.ndindex(x.shape[1:]):
                found[f"{path}{[*i] or ''}"] = x[(slice(None), *i)].astype(np.float64)
    return found


def half_units(leaves: list[Any]) -> np.ndarray:
    """For each number of one row half a unit in the last place of 1; 0 if it is no float."""
    eps = [np.finfo(x.dtype).eps if x.dtype.kind == "f" else 0.0 for x in leaves]
    return np.repeat(eps, [x.size for x in leaves]) / 1.99


def is_continuous(x: Any) -> bool:
    """Whether a leaf is floats that are no whole numbers, such as a map of flags would be."""
    return x.dtype.kind == "f" and bool(np.any(x != np.round(x)))


def is_bits(x: Any) -> bool:
    """Whether a leaf is the bits of PRNG keys."""
    return x.dtype == np.uint32 and x.shape[-1:] in ((2,), (4,))


def text(x: Any) -> str:
    """A number or a short array; of a long one the type."""
    x = np.asarray(x)
    if x.size > 8:
        return f"{x.dtype}{list(x.shape)}"
    if x.ndim:
        return f"[{', '.join(map(text, x))}]"
    return str(x) if x.dtype.kind in "biu" else f"{x:.10g}"
