"""How an episode ended: whether a step ended it, and why."""

from typing import Any

import jax
import jax.numpy as jnp

from envrax.env import AnyEnv, EnvState, Info


def episode_ended(env: AnyEnv, new_state: EnvState, done: Any) -> jax.Array:
    """
    Whether a step of `env` ended its episode, as a bool scalar.

    True if `new_state.done` is set, or if the returned `done` is a true bool scalar. A returned
    `done` to which a wrapper gave another type (a discount, an extra axis) is ignored.

    Raises
    ------
    TypeError
        If `state.done`, or the `done` that an environment without wrappers returned, is not a bool
        scalar.
    """
    flag = jnp.asarray(new_state.done)
    _require_flag(flag, f"{type(env).__name__}.step: expected new_state.done")
    if env.unwrapped is env:
        _require_flag(jnp.asarray(done), f"{type(env).__name__}.step: expected done")
    if done is new_state.done or not _is_flag(jnp.asarray(done)):
        return flag
    return flag | jnp.asarray(done)


def episode_end(
    who: str, shape: tuple[int, ...], done: Any, info: Info
) -> tuple[jax.Array, jax.Array]:
    """
    Whether a step terminated its episode, and whether it truncated it.

    An end without a reason in `info` is a termination. Where `done` is False both are False.

    Parameters
    ----------
    who : str
        The function that the user called, for error messages.
    shape : tuple of int
        Shape of the flags.
    done : jax.Array
        bool of that shape.
    info : dict
        Info of the step, perhaps with "terminated" and "truncated".

    Raises
    ------
    TypeError
        If one of them is not bool of that shape.
    """
    told = {name: jnp.asarray(info[name]) for name in ("terminated", "truncated") if name in info}
    done = jnp.asarray(done)
    for name, x in {**told, "done": done}.items():
        if (x.shape, x.dtype) != (shape, jnp.bool_):
            raise TypeError(
                f"{who}: expected `{name}` of shape {shape}, bool; got {x.shape} {x.dtype}. "
                "Leave out the wrapper that changes it, such as `EpisodeDiscount`."
            )
    alive = ~told["terminated"] if "terminated" in told else jnp.zeros_like(done)
    truncated = done & told.get("truncated", alive)
    return done & (told.get("terminated", ~truncated) | ~truncated), truncated


def _is_flag(x: jax.Array) -> bool:
    return x.shape == () and x.dtype == jnp.bool_


def _require_flag(x: jax.Array, expected: str) -> None:
    if not _is_flag(x):
        raise TypeError(
            f"{expected} of shape (), bool; got {x.shape} {x.dtype}. Return one bool, for example "
            "the result of a comparison, without a cast."
        )
