"""Checks of what users pass and return: keywords, counts, the tuples of `reset` and `step`."""

import difflib
import functools
import inspect
import operator
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

LEAVE_OUT = "Leave it out."
RETURNS = {
    "reset": "obs, state",
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


def known_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function, or an `__init__`, say which keyword it does not know and what is meant."""
    parameters = inspect.signature(function).parameters.values()
    legal = [p.name for p in parameters if p.name != "self" and p.kind is not p.VAR_KEYWORD]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    required = [p.name for p in parameters if p.default is p.empty and p.name in legal]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        name = function.__name__
        who = type(args[0]).__name__ if name == "__init__" else name
        is_complete = all(name in kwargs for name in required[len(args) :])
        if not (takes_any and is_complete):
            refuse_unknown(who, kwargs, legal)
        return function(*args, **kwargs)

    return checked


def refuse_unknown(
    who: str,
    given: Iterable[str],
    legal: Iterable[str],
) -> None:
    """
    Refuse keywords that there are not.

    Parameters
    ----------
    who : str
        What is called, for the message.
    given : iterable of str
        The keywords of the call.
    legal : iterable of str
        The keywords that it has; a `config` among them takes the fields of a config.

    Raises
    ------
    TypeError
        If one of `given` is not in `legal`.
    """
    legal = list(legal)
    unknown = [name for name in given if name not in legal]
    if not unknown:
        return
    advice = suggestion(unknown, legal)
    if "config" in legal and advice == LEAVE_OUT:
        fields = ", ".join(f"{name}=..." for name in unknown)
        advice = f"Pass fields of a config in it: `config=MyConfig({fields})`."
    raise TypeError(
        f"{who}: expected the keywords {', '.join(legal)}; got {', '.join(unknown)}. {advice}"
    )


def suggestion(unknown: Iterable[str], known: Iterable[str]) -> str:
    """What to do about unknown keywords: take those that are alike, or leave them out."""
    known = list(known)
    close = [match for name in unknown for match in difflib.get_close_matches(name, known, 1)]
    return f"Did you mean {' and '.join(close)}?" if close else LEAVE_OUT
