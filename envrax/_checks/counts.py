"""Checks of counts and indices."""

import operator
from typing import Any

INT32_MAX = 2**31 - 1  # the most steps that an int32 can count


def require_count(expected: str, value: Any, least: int = 1) -> int:
    """
    `value` as an int of at least `least`.

    Parameters
    ----------
    expected : str
        How the error begins: "VecEnv: expected num_envs".
    value : Any
        The argument.
    least : int, default 1
        The smallest legal one.

    Raises
    ------
    TypeError
        If it is not an integer, or a bool.
    ValueError
        If it is below `least`.
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
    return number


def slot_index(who: str, slot_idx: Any, n_slots: int) -> int:
    """A concrete index of a slot by list rules, or an IndexError."""
    index = operator.index(slot_idx)
    if not -n_slots <= index < n_slots:
        raise IndexError(f"{who}: expected an index from {-n_slots} to {n_slots - 1}; got {index}.")
    return index % n_slots
