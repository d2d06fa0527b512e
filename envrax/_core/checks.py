"""Checks of user input: counts, names, the tuples that `reset` and `step` return."""

import difflib
import operator
from collections.abc import Iterable
from typing import Any, cast

LONGEST = 2**31 - 1  # the most steps that an int32 can count
RETURNS = {
    "reset": "obs, state",
    "sample": "obs, state",
    "reset_after": "obs, state",
    "step": "obs, state, reward, done, info",
    "on_reset": "obs, fields",
    "on_step": "obs, state, reward, done, info",
    "the call": "action, policy_state, extras",
}


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


def require_tuple(who: str, method: str, returned: Any) -> tuple[Any, ...]:
    """
    `returned`, checked to be the tuple that the method has to return.

    Parameters
    ----------
    who : str
        The environment, for the message.
    method : str
        One of `RETURNS`.
    returned : Any
        The result of the method.

    Raises
    ------
    TypeError
        If it is not a tuple, or one of another length.
    """
    form = RETURNS[method]
    if isinstance(returned, tuple) and len(cast(Any, returned)) == len(form.split(", ")):
        return cast(Any, returned)
    size = f" of length {len(cast(Any, returned))}" if isinstance(returned, tuple) else ""
    raise TypeError(
        f"{who}: expected {method} to return a tuple ({form}); got a "
        f"{type(cast(Any, returned)).__name__}{size}."
    )


def added(who: str, env: Any, info: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """`info` of `env` with one more entry; a ValueError if it has one of that name."""
    if key in info:
        raise ValueError(
            f"{who}: expected an info without {key!r}, which it adds; got one from {env}. Give "
            "that entry another name there."
        )
    return {**info, key: value}


def slot_index(who: str, slot_idx: Any, n_slots: int) -> int:
    """A concrete index of a slot by list rules, or an IndexError."""
    index = operator.index(slot_idx)
    if not -n_slots <= index < n_slots:
        raise IndexError(f"{who}: expected an index from {-n_slots} to {n_slots - 1}; got {index}.")
    return index % n_slots


def suggestion(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Advice on unknown names: close matches, or the dict `params`, or to leave them out."""
    known = list(known)
    close = [match for name in unknown for match in difflib.get_close_matches(name, known, 1, 0.7)]
    inside = ", or put it into the dict `params`" if "params" in known else ""
    return f"Did you mean {' and '.join(close)}?" if close else f"Leave it out{inside}."
