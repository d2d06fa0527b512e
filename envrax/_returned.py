"""What `reset`, `step` and the hooks of a stateful wrapper return, by the contract."""

from typing import Any, cast

RETURNS = {
    "reset": "obs, state",
    "step": "obs, state, reward, done, info",
    "on_reset": "obs, fields",
    "on_step": "obs, state, reward, done, info",
}


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
