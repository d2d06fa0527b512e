"""Checks of counts and indices."""

import operator
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

NO_LIMIT = 2**31 - 1  # a limit of steps that means none: the most that an int32 can count


def require_count(expected: str, value: Any, least: int = 1, most: float = np.inf) -> int:
    """
    `value` as an int; an error if it is below `least` or above `most`.

    Parameters
    ----------
    expected : str
        How the error message begins: "VecEnv: expected num_envs".
    value : Any
        The argument.
    least, most : int
        The smallest and the largest legal value.

    Raises
    ------
    TypeError
        If `value` is not an integer, or is a bool.
    ValueError
        If `value` is below `least` or above `most`.
    """
    try:
        # Arrays have an `__index__` too, which raises for several elements.
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{expected} to be an int; got {value!r}.")
    if number < least:
        raise ValueError(f"{expected} to be at least {least}; got {value}.")
    if number > most:
        raise ValueError(f"{expected} to be at most {most}; got {value}.")
    return number


def within_int32(limit: Any) -> Any:
    """A time limit that an int32 can count up to: a larger one, as `sys.maxsize`, is none."""
    if isinstance(limit, int | np.integer) and limit > NO_LIMIT:
        return NO_LIMIT
    return cast(Any, limit)


def require_limit(expected: str, limit: Any, least: int = 1) -> Any:
    """
    A time limit as a Python int, at most `NO_LIMIT`; a larger one means no limit.

    A JAX array, which may be drawn or traced, becomes int32 by the same rule: nothing reads it, so
    that one below `least` becomes `least`.

    Parameters
    ----------
    expected, limit, least
        As for `require_count`.

    Raises
    ------
    TypeError
        If `limit` is not an integer, or is a bool.
    ValueError
        If `limit` is below `least`.
    """
    if isinstance(limit, jax.Array):
        if not jnp.issubdtype(limit.dtype, jnp.integer):
            raise TypeError(f"{expected} to be an int; got {limit.dtype}{list(limit.shape)}.")
        return jnp.clip(limit, least, NO_LIMIT).astype(jnp.int32)
    return within_int32(require_count(expected, limit, least))


def slot_index(who: str, slot_idx: Any, n_slots: int) -> int:
    """The index of a slot, counted from 0; negative ones count from the end, as in a list."""
    index = operator.index(slot_idx)
    if not -n_slots <= index < n_slots:
        raise IndexError(f"{who}: expected an index from {-n_slots} to {n_slots - 1}; got {index}.")
    return index % n_slots
