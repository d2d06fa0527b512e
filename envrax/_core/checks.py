"""Checks of what users pass and return: counts, names, the tuples of `reset` and `step`."""

import difflib
import operator
from collections.abc import Iterable
from typing import Any, cast

RETURNS = {
    "reset": "obs, state",
    "sample": "obs, state",
    "reset_after": "obs, state",
    "step": "obs, state, reward, done, info",
    "on_reset": "obs, fields",
    "on_step": "obs, state, reward, done, info",
}


def require_count(expected: str, value: Any, least: int = 1) -> int:
    """
    `value` as an int of at least `least`.

    Parameters
    ----------
    expected : str
        How the error begins: "VecEnv: expected num_envs".
    value : Any
        What was given.
    least : int, default 1
        The smallest legal one.

    Raises
    ------
    TypeError
        If it is no integer; a bool counts as none.
    ValueError
        If it is below `least`.
    """
    try:
        # An array of several has an `__index__` too, one that raises.
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{expected} to be an int; got {value!r}.")
    if number < least:
        raise ValueError(f"{expected} to be at least {least}; got {value}.")
    return number


def require_tuple(who: str, method: str, returned: Any) -> tuple[Any, ...]:
    """
    What a method of an environment returned, if it has the form of the contract.

    Parameters
    ----------
    who : str
        The environment, for the message.
    method : str
        One of `RETURNS`.
    returned : Any
        What it returned.

    Raises
    ------
    TypeError
        If that is no tuple, or one of another length.
    """
    form = RETURNS[method]
    if isinstance(returned, tuple) and len(cast(Any, returned)) == len(form.split(", ")):
        return cast(Any, returned)
    size = f" of length {len(cast(Any, returned))}" if isinstance(returned, tuple) else ""
    raise TypeError(
        f"{who}: expected {method} to return a tuple ({form}); got a "
        f"{type(cast(Any, returned)).__name__}{size}."
    )


def suggestion(unknown: Iterable[str], known: Iterable[str]) -> str:
    """What to do about unknown names: take those that are alike, or leave them out."""
    known = list(known)
    close = [match for name in unknown for match in difflib.get_close_matches(name, known, 1)]
    return f"Did you mean {' and '.join(close)}?" if close else "Leave it out."
