"""`same_state`: whether a step continues a film, which shows one run."""

from typing import Any

import jax
import numpy as np

from envrax._jax.keys import is_key


def same_state(state: Any, other: Any) -> bool:
    """
    Whether two states are equal, bit for bit.

    A film goes on while each step is given the state that the last step returned. A copy of that
    state is as good; an array that was donated in the meantime is equal to nothing but itself.
    """
    if jax.tree.structure(state) != jax.tree.structure(other):
        return False
    return all(map(_same, jax.tree.leaves(state), jax.tree.leaves(other)))


def _same(x: Any, y: Any) -> bool:
    if x is y:
        return True
    if any(isinstance(array, jax.Array) and array.is_deleted() for array in (x, y)):
        return False
    return _bits(x) == _bits(y)


def _bits(x: Any) -> bytes:
    return np.asarray(jax.random.key_data(x) if is_key(x) else x).tobytes()
