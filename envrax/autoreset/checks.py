"""Checks of what an environment returns, and of the state of a batch."""

from typing import Any

import jax
import numpy as np

from envrax._checks.tuples import RETURNS, require_tuple
from envrax._jax.types import leaf_type, leaf_types, numbers_as_arrays, same_types
from envrax.env import AnyEnv, EnvState, starting_method_name


def checked(env: AnyEnv, method: str, returned: Any) -> tuple[Any, ...]:
    """What `reset` or `step` returned, checked, as strongly typed arrays."""
    returned = require_tuple(type(env).__name__, method, returned, EnvState)
    return as_arrays(env, method, returned)


def as_arrays(env: AnyEnv, method: str, returned: tuple[Any, ...]) -> tuple[Any, ...]:
    """The results of `reset` or `step` as strongly typed arrays."""
    named = dict(zip(RETURNS[method].split(", "), returned, strict=True))
    return numbers_as_arrays(f"{type(env).__name__}: expected {method} to return", named, returned)


def require_slots(
    state: Any, num_envs: int, who: str = "VecEnv.step", hint: str = "Pass `state, actions`."
) -> None:
    """Raise an error for anything but a state of `num_envs` slots."""
    expected = f"{who}: expected the state of {num_envs} slots that reset or step returned"
    if not isinstance(state, EnvState):
        got = leaf_type(state) if hasattr(state, "shape") else type(state).__name__
        raise TypeError(f"{expected}; got {got}. {hint}")
    for leaf in jax.tree.leaves(state):
        if np.shape(leaf)[:1] != (num_envs,):
            raise ValueError(
                f"{expected}; got a leaf of shape {np.shape(leaf)}. Pass the state of this batch."
            )


def require_same_types(
    env: AnyEnv, start: Any, other: Any, method: str = "step", *, after_end: bool = False
) -> None:
    """
    Raise an error, with the first such leaf, if the types of reset and of a method differ.

    `after_end` says that `start` is of the reset that follows an end, which may be `reset_after`.
    """
    if same_types(start, other):
        return
    begin = starting_method_name(env) if after_end else "reset"
    at_start = leaf_types(start)
    there = leaf_types(other)
    for leaf in [*at_start, *there]:
        if at_start.get(leaf) != there.get(leaf):
            raise TypeError(
                f"{env.name}: expected {begin} and {method} to agree on `{leaf}`; got "
                f"{at_start.get(leaf, 'no such leaf')} from {begin} and "
                f"{there.get(leaf, 'no such leaf')} from {method}. Return the same structure, "
                "shapes and dtypes from both, for example with `jnp.asarray(x, dtype)`."
            )
    raise TypeError(
        f"{env.name}: expected {begin} and {method} to agree on the structure of obs and state; "
        f"got {jax.tree.structure(start)} from {begin} and {jax.tree.structure(other)} from "
        f"{method}. Return the same containers from both."
    )
