"""What a function of the user returned: the tuple, its numbers as arrays, entries of an info."""

import dataclasses
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.types import named_leaves

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
        If it is not a tuple, has another length, its second entry is of another class, or has an
        attribute that the class does not declare.
    """
    form = RETURNS[method]
    if isinstance(returned, tuple) and len(cast(Any, returned)) == len(form.split(", ")):
        got: Any = cast(Any, returned)[1]
        if state is not None and not isinstance(got, state):
            raise TypeError(
                f"{who}: expected {method} to return an {state.__name__} in second place; got "
                f"{type(got).__name__}. Extend {state.__name__} with `@chex.dataclass`."
            )
        if state is not None and (name := undeclared(got)):
            raise TypeError(
                f"{who}: expected {method} to return a state with the fields of its class; got "
                f"`{name}` too. {declare(name)}"
            )
        return cast(Any, returned)
    size = f" of length {len(cast(Any, returned))}" if isinstance(returned, tuple) else ""
    raise TypeError(
        f"{who}: expected {method} to return a tuple ({form}); got a "
        f"{type(cast(Any, returned)).__name__}{size}."
    )


def undeclared(state: Any) -> str | None:
    """
    The first attribute of a state, or of those within it, that its class does not declare.

    A `chex.dataclass` takes it for a leaf, so that the state has another structure than before.
    """
    while dataclasses.is_dataclass(state):
        for name in getattr(state, "__dict__", {}):
            if name not in cast(Any, state).__dataclass_fields__:
                return name
        state = getattr(state, "env_state", None)
    return None


def declare(name: str) -> str:
    """The advice for `undeclared`."""
    return f"Declare it, `{name}: jax.Array` in the class of the state, and set it with `replace`."


def returned_arrays(
    who: str, method: str, returned: Any, state: type | None = None
) -> tuple[Any, ...]:
    """`require_tuple`, as strongly typed arrays."""
    returned = require_tuple(who, method, returned, state)
    named = dict(zip(RETURNS[method].split(", "), returned, strict=True))
    return numbers_as_arrays(f"{who}: expected {method} to return", named, returned)


def strip_weak_type(tree: Any) -> Any:
    """
    The same pytree as strongly typed JAX arrays, which share no memory with NumPy arrays.

    A weakly typed output, fed back in, would be another signature, and so a second program.
    """
    leaves, structure = cast(Any, jax.tree.flatten(tree))
    strong: list[jax.Array] = []
    for leaf in leaves:
        x = leaf
        if not isinstance(x, jax.Array):
            x = jnp.asarray(np.array(x) if isinstance(x, np.ndarray) else x)  # `copy_numpy`
        weak = cast(bool, getattr(x, "weak_type", False))  # typed keys have no such attribute
        strong.append(jax.lax.convert_element_type(x, x.dtype) if weak else x)
    return jax.tree.unflatten(structure, strong)


def numbers_as_arrays(expected: str, named: Any, tree: Any) -> Any:
    """
    `strip_weak_type(tree)`, or an error that names the first leaf that is no number.

    Parameters
    ----------
    expected : str
        Who should return or hold them, for the message: "Env: expected step to return".
    named : dict
        The parts of the tree, by their names.
    tree : pytree
        What was returned.
    """
    try:
        return strip_weak_type(tree)
    except (TypeError, ValueError):
        for name, leaf in named_leaves(named).items():
            try:
                strip_weak_type(leaf)
            except (TypeError, ValueError):
                advice = "Leave it out, or put a number in its place."
                if dataclasses.is_dataclass(leaf):
                    advice = f"Write `@chex.dataclass` above `{type(leaf).__name__}`."
                raise TypeError(
                    f"{expected} arrays and numbers; got {leaf!r} at `{name}`. {advice}"
                ) from None
        raise


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
