"""Checks of the tuples that `reset`, `step` and policies return, and of entries of an info."""

from typing import Any, cast

RETURNS = {
    "reset": "obs, state",
    "sample": "obs, state",
    "reset_after": "obs, state",
    "advance": "state, reward, terminated",
    "step": "obs, state, reward, done, info",
    "on_reset": "obs, fields",
    "on_reset_where": "obs, state",
    "on_step": "obs, state, reward, done, info",
    "the call": "action, policy_state, extras",
}


def require_tuple(
    who: str, method: str, returned: Any, state: type | None = None
) -> tuple[Any, ...]:
    """
    `returned`, if it is the tuple that the method must return; else an error.

    Parameters
    ----------
    who : str
        The environment, for the message.
    method : str
        One of `RETURNS`.
    returned : Any
        The result of the method.
    state : type, optional
        The class of the second entry.

    Raises
    ------
    TypeError
        If it is not a tuple, has another length, or its second entry is of another class.
    """
    form = RETURNS[method]
    if isinstance(returned, tuple) and len(cast(Any, returned)) == len(form.split(", ")):
        got: Any = cast(Any, returned)[1]
        if state is not None and not isinstance(got, state):
            raise TypeError(
                f"{who}: expected {method} to return an {state.__name__} in second place; got "
                f"{type(got).__name__}. Extend {state.__name__} with `@chex.dataclass`."
            )
        return cast(Any, returned)
    size = f" of length {len(cast(Any, returned))}" if isinstance(returned, tuple) else ""
    raise TypeError(
        f"{who}: expected {method} to return a tuple ({form}); got a "
        f"{type(cast(Any, returned)).__name__}{size}."
    )


def with_info_entry(
    who: str, env: Any, info: dict[str, Any], key: str, value: Any
) -> dict[str, Any]:
    """The `info` of `env` with one more entry; a ValueError if it has that entry already."""
    if key in info:
        raise ValueError(
            f"{who}: expected an info without {key!r}, which it adds; got one from {env}. Give "
            "that entry another name there."
        )
    return {**info, key: value}
