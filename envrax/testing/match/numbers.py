"""Pytrees with a leading axis: rows of them, and their numbers as columns of float64."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.types import named_leaves

MOST_COLUMNS = 64  # numbers of a step that samples keep; of the others they keep sums
SUMS = 16
LEAST_SCALE = 1e-3  # of a number
INFINITE = 1e100  # stands for an infinite number


def take(tree: Any, index: Any) -> Any:
    """Some rows of each leaf, or one, copied."""
    return jax.tree.map(lambda x: x[index].copy(), tree)


def join(trees: list[Any]) -> Any:
    """Trees joined along the leading axis."""
    return jax.tree.map(lambda *x: np.concatenate(x), *trees)


def where(mask: Any, a: Any, b: Any) -> Any:
    """Rows of one tree or of another."""
    return jax.tree.map(lambda x, y: np.where(mask.reshape(-1, *[1] * (x.ndim - 1)), x, y), a, b)


def count(tree: Any) -> int:
    """The number of rows."""
    return len(jax.tree.leaves(tree)[0])


def matrix(tree: Any) -> np.ndarray:
    """All numbers of a tree: a row for each row of the tree."""
    flat = [np.asarray(x).reshape(len(x), -1).astype(np.float64) for x in jax.tree.leaves(tree)]
    return np.concatenate(flat, axis=1)


def columns(tree: Any, hidden: frozenset[str] = frozenset(), most: int = -1) -> dict[str, Any]:
    """The columns of `matrix` by their names, such as "obs[1]", finite, without some leaves."""
    found: dict[str, np.ndarray] = {}
    for path, x in named_leaves(tree).items():
        if path not in hidden:
            for i in np.ndindex(x.shape[1:]):
                if len(found) == most:
                    return found
                found[f"{path}{[*i] or ''}"] = finite(x[(slice(None), *i)])
    return found


def size(x: np.ndarray) -> np.ndarray:
    """Absolute values; 0 where a number is infinite or NaN."""
    return np.nan_to_num(abs(x), posinf=0.0)


def stacked(columns: dict[str, np.ndarray], n: int) -> np.ndarray:
    """A matrix of n rows from columns, of which there may be none."""
    return np.stack([*columns.values()], axis=1) if columns else np.zeros((n, 0))


def finite(x: Any) -> np.ndarray:
    """Numbers with which one can calculate: a large one for an infinite one, 0 for NaN."""
    return np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=INFINITE, neginf=-INFINITE)


def is_constant(x: np.ndarray) -> bool:
    """Whether all rows are the same."""
    return bool(np.all(x == x[0]))


def named_as_key(path: str, x: Any) -> bool:
    """Whether a leaf is bits and has the name of a PRNG key, such as `rng` or `inner.key`."""
    name = re.split(r"[.\[]", path)[-1]
    return x.dtype == np.uint32 and bool(re.search(r"(^|_)(rng|prng|key)s?(_|$)", name))


def is_float(dtype: Any) -> bool:
    """Whether a dtype is one of floats, such as bfloat16, which NumPy does not know."""
    return bool(jnp.issubdtype(dtype, np.floating))


def precision(dtype: Any) -> float:
    """Relative distance of two neighbours in a dtype of floats; 0 in another."""
    return float(jnp.finfo(dtype).eps) if is_float(dtype) else 0.0


def text(x: Any) -> str:
    """A number or a short array; of a long one the type."""
    x = np.asarray(x)
    if x.size > 8:
        return f"{x.dtype}{list(x.shape)}"
    if x.ndim:
        return f"[{', '.join(map(text, x))}]"
    return f"{x:.10g}" if is_float(x.dtype) else str(x)


class Sketch:
    """
    What samples keep of the numbers of a step: all, or if they are many some, and sums of all.

    Parameters
    ----------
    numbers : np.ndarray
        Visited steps, of which the numbers that vary most are kept.
    kept : int
        The first numbers are kept in any case: flags and rewards.
    names : list of str
        Names of the numbers.
    random : np.random.Generator
        Draws the weights of the sums, which are whole numbers.
    most : int, default 64
        The most numbers that are kept.
    """

    def __init__(
        self,
        numbers: np.ndarray,
        kept: int,
        names: list[str],
        random: np.random.Generator,
        most: int = MOST_COLUMNS,
    ) -> None:
        n = numbers.shape[1]
        n_sums = SUMS if n > most else 0
        spread = finite(numbers).std(axis=0)
        spread[:kept] = np.inf
        self.columns = np.sort(np.argsort(-spread, kind="stable")[:most])
        self.weights = random.integers(-99, 100, size=(n, n_sums)).astype(np.float64)
        self.names: list[str] = [names[i] for i in self.columns]
        self.names += [f"sum {i} of all numbers" for i in range(n_sums)]

    def __call__(self, numbers: np.ndarray) -> np.ndarray:
        """Of numbers with any leading axes."""
        return self._kept(numbers, self.weights)

    def tolerance(self, tolerance: np.ndarray) -> np.ndarray:
        """Of tolerances of the numbers."""
        return self._kept(tolerance, abs(self.weights))

    def _kept(self, numbers: np.ndarray, weights: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", over="ignore"):
            sums = numbers @ weights
        return np.concatenate([numbers[..., self.columns], sums], axis=-1)
