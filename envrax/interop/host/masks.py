"""`MaskReader`: the masks of legal actions of simulators, as those of envrax."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np

from envrax.spaces import Dict, MultiBinary, MultiDiscrete, Space, Tuple
from envrax.spaces.base import describe, require_container
from envrax.spaces.masks import with_full_masks

_ALL = "Give a mask of every part of the action space, or None for a part where all is legal."


class MaskReader:
    """
    Copies masks of single slots into those of all slots.

    Parameters
    ----------
    who : str
        The function that the user called, for messages.
    space : Space
        The action space of one slot.
    of_leaf : callable, optional
        `of_leaf(space, mask)` is the mask of a space that is no container, if it has another form.
    """

    def __init__(
        self, who: str, space: Space, of_leaf: Callable[[Space, Any], Any] | None = None
    ) -> None:
        self._who = who
        self._space = space
        self._of_leaf = of_leaf

    @cached_property
    def _all_legal(self) -> Any:
        return jax.tree.map(np.asarray, with_full_masks(self._space, None))

    @property
    def has_masks(self) -> bool:
        """Whether any part of the space has masks."""
        return bool(jax.tree.leaves(self._all_legal))

    def stacked(self, masks: Sequence[Any], name: str) -> Any:
        """
        The masks of slots, with all legal in place of None. `name` is for messages.

        Raises
        ------
        ValueError
            If one has another form than the space.
        """
        rows: Any = [self._read(self._space, self._all_legal, x, name) for x in masks]
        return jax.tree.map(lambda *x: np.stack(x), *rows)

    def _read(self, space: Space, all_legal: Any, mask: Any, name: str) -> Any:
        if mask is None:
            return all_legal
        if isinstance(space, Dict | Tuple):
            require_container(all_legal, mask, self._who, name, _ALL)
        if isinstance(space, Tuple):
            parts = enumerate(zip(space, all_legal, mask, strict=True))
            return tuple(self._read(*part, f"{name}[{i}]") for i, part in parts)
        if isinstance(space, Dict):
            return {
                k: self._read(child, all_legal[k], mask[k], f"{name}[{k!r}]")
                for k, child in space.items()
            }
        found = self._of_leaf(space, mask) if self._of_leaf and all_legal is not None else mask
        if all_legal is None or np.shape(found) != all_legal.shape:
            wanted = "None, as its space has no masks"
            how = _ALL
            if all_legal is not None and self._of_leaf:
                how = "Give what `sample` of that space takes as its mask."
                wanted = f"a mask of Gymnasium's {space}"
            elif all_legal is not None:
                wanted = f"of shape {all_legal.shape}"
            got = describe(mask)
            raise ValueError(f"{self._who}: expected {name} to be {wanted}; got {got}. {how}")
        return np.array(found)


def of_gymnasium(space: Space, mask: Any) -> Any:
    """
    A mask in the form that `sample` of the space of Gymnasium takes, as that of envrax.

    Of a `MultiDiscrete` it is a tuple of masks; of a `MultiBinary` the legal value of each entry,
    or 2 where both are legal. None if it has another form.
    """
    if isinstance(space, MultiDiscrete):
        return _padded(np.array(space.nvec), mask)
    if isinstance(space, MultiBinary) and space.dtype == np.int8:  # others are a `Box` there
        value = np.asarray(mask)
        return np.stack([value != 1, value != 0], -1) if np.isin(value, (0, 1, 2)).all() else None
    return np.asarray(mask) != 0 if np.isin(mask, (0, 1)).all() else None


def _padded(counts: np.ndarray, mask: Any) -> np.ndarray | None:
    """The rows of a tuple, nested as `counts`, as one array with False where a row is shorter."""
    rows = jax.tree.leaves([*mask]) if np.iterable(mask) else []
    if [np.shape(row) for row in rows] != [(n,) for n in counts.flat]:
        return None
    if not all(np.isin(row, (0, 1)).all() for row in rows):
        return None
    padded = np.zeros((counts.size, counts.max()), bool)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded.reshape(*counts.shape, -1)
