"""Numbers of things, as users give them."""

import operator
from typing import Any


def require_count(expected: str, value: Any) -> int:
    """
    `value` as an int of at least 1.

    Parameters
    ----------
    expected : str
        How the error begins: "VecEnv: expected num_envs".
    value : Any
        What was given.

    Raises
    ------
    TypeError
        If it is no integer; a bool counts as none.
    ValueError
        If it is below 1.
    """
    try:
        # An array of several has an `__index__` too, one that raises.
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{expected} to be an int; got {value!r}.")
    if number < 1:
        raise ValueError(f"{expected} to be at least 1; got {value}.")
    return number
