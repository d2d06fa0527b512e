"""How an episode ended: whether a step ended it, and why."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.counts import within_int32
from envrax._checks.drawn_field import DrawnField
from envrax._checks.tuples import require_tuple
from envrax.env import AnyEnv, EnvState, Info

_FLAG = ((), np.dtype(bool))  # shape and dtype of a bool scalar


def step_env(
    env: AnyEnv, state: EnvState, action: Any
) -> tuple[Any, Any, jax.Array, jax.Array, Info]:
    """`env.step`, with `done` of the new state set if the step ended the episode."""
    returned = require_tuple(type(env).__name__, "step", env.step(state, action), EnvState)
    obs, new_state, reward, done, info = returned
    ended = episode_ended(env, new_state, done)
    return obs, new_state.replace(done=ended), reward, done, info


def episode_ended(env: AnyEnv, new_state: EnvState, done: Any) -> jax.Array:
    """
    Whether a step of `env` ended its episode, as a bool scalar.

    True if `new_state.done` is True, or if the returned `done` is a bool scalar that is True. A
    returned `done` to which a wrapper gave another type (a discount, an extra axis) is ignored.

    Raises
    ------
    TypeError
        If `state.done`, or the `done` that an environment without wrappers returned, is not a bool
        scalar.
    """
    flag = jnp.asarray(new_state.done)
    returned = jnp.asarray(done)
    if (flag.shape, flag.dtype) != _FLAG:
        raise _no_flag(env, "new_state.done", flag)
    is_flag = (returned.shape, returned.dtype) == _FLAG
    if not is_flag and not env._is_wrapper:  # pyright: ignore[reportPrivateUsage]
        raise _no_flag(env, "done", returned)
    return flag | returned if is_flag and done is not new_state.done else flag


def _no_flag(env: AnyEnv, name: str, x: jax.Array) -> TypeError:
    return TypeError(
        f"{type(env).__name__}.step: expected {name} of shape (), bool; got {x.shape} {x.dtype}. "
        "Return one bool, for example the result of a comparison, without a cast."
    )


def step_end(who: str, env: AnyEnv, last: EnvState, info: Info) -> tuple[jax.Array, jax.Array]:
    """
    Whether a step of `env` terminated its episode, and whether it truncated it.

    A wrapper that changes what `state.step` counts, or that ends episodes itself, calls this and
    gives both reasons in its `info`.

    Parameters
    ----------
    who, info
        As for `episode_end`.
    last : EnvState
        State after the step, before any reset.
    """
    limit = env.config.max_steps
    # A wrapper that draws the limit gives the reasons itself.
    at_limit = False if isinstance(limit, DrawnField) else last.step >= within_int32(limit)
    return episode_end(who, (), last.done, info, at_limit)


def episode_end(
    who: str, shape: tuple[int, ...], done: Any, info: Info, at_limit: jax.Array | bool = False
) -> tuple[jax.Array, jax.Array]:
    """
    Whether a step terminated its episode, and whether it truncated it.

    An end for which `info` gives no reason is a truncation at the limit, else a termination. Where
    `done` is False both are False.

    Parameters
    ----------
    who : str
        The function that the user called, for error messages.
    shape : tuple of int
        Shape of the flags.
    done : jax.Array
        bool of that shape.
    info : dict
        Info of the step, perhaps with "terminated" and "truncated". If only one of them is there,
        the other is its opposite.
    at_limit : jax.Array or bool, default False
        Whether the step reached the time limit of the config.

    Raises
    ------
    TypeError
        If one of them is not bool of that shape.
    """
    known = {name: jnp.asarray(info[name]) for name in ("terminated", "truncated") if name in info}
    done = jnp.asarray(done)
    for name, x in {**known, "done": done}.items():
        if (x.shape, x.dtype) != (shape, jnp.bool_):
            raise TypeError(
                f"{who}: expected `{name}` of shape {shape}, bool; got {x.shape} {x.dtype}. "
                "Leave out the wrapper that changes it, such as `EpisodeDiscount`."
            )
    if len(known) == 1:
        [(name, reason)] = known.items()
        known["truncated" if name == "terminated" else "terminated"] = ~reason
    terminated = done & known.get("terminated", False)
    truncated = done & known.get("truncated", False)
    unexplained = done & ~terminated & ~truncated
    at_limit = jnp.asarray(at_limit)
    return terminated | (unexplained & ~at_limit), truncated | (unexplained & at_limit)
