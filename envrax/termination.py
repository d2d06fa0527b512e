"""How an episode ended: whether a step ended it, and why."""

from itertools import repeat
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.returned import require_tuple
from envrax.env import AnyEnv, EnvState, Info

_FLAG = ((), np.dtype(bool))  # shape and dtype of a bool scalar


class End(NamedTuple):
    """
    How a step ended an episode, as bools: of one environment, or one for each slot.

    Attributes
    ----------
    done, terminated, truncated : jax.Array
        Whether the step ended the episode, and why. Both reasons may be True.
    """

    done: jax.Array
    terminated: jax.Array
    truncated: jax.Array


def step_env(
    env: AnyEnv, state: EnvState, action: Any
) -> tuple[Any, Any, jax.Array, jax.Array, Info]:
    """
    `env.step`, whose two flags of an end agree: the returned `done` and `new_state.done`.

    A step ends the episode if `new_state.done` is True, or if the returned `done` is a bool scalar
    that is True. A returned `done` to which a wrapper gave another type (a discount, an extra axis)
    says nothing about the end, and stays as it is.

    Raises
    ------
    TypeError
        If `new_state.done`, or the `done` that an environment without wrappers returned, is not a
        bool scalar; if `info` is no dict with str keys, or `new_state.rng` a key of another kind.
    """
    returned = require_tuple(type(env).__name__, "step", env.step(state, action), EnvState)
    obs, new_state, reward, done, info = returned
    if not isinstance(info, dict) or not all(map(isinstance, cast(Any, info), repeat(str))):
        raise TypeError(
            f"{type(env).__name__}.step: expected info to be a dict with str keys; got {info!r}. "
            "Return `{}` if there is nothing to say."
        )
    if new_state.rng.dtype != state.rng.dtype:
        raise TypeError(
            f"{type(env).__name__}.step: expected new_state.rng of {state.rng.dtype}, as in the "
            f"state before; got {new_state.rng.dtype}. Split the key of the state."
        )
    ended = new_state.done if hasattr(new_state.done, "dtype") else np.asarray(new_state.done)
    flag = done if hasattr(done, "dtype") else np.asarray(done)
    if (ended.shape, ended.dtype) != _FLAG:
        raise _no_flag(env, "new_state.done", ended)
    is_flag = (flag.shape, flag.dtype) == _FLAG
    if not is_flag and (env.unwrapped is env or flag.dtype == object):
        raise _no_flag(env, "done", flag)
    ended = jnp.asarray(ended)
    if is_flag:
        done = ended = ended if done is new_state.done else ended | flag
    return obs, new_state.replace(done=ended), reward, done, cast(Info, info)


def _no_flag(env: AnyEnv, name: str, x: Any) -> TypeError:
    got = x if x.dtype == object else f"{x.shape} {x.dtype}"
    return TypeError(
        f"{type(env).__name__}.step: expected {name} of shape (), bool; got {got}. "
        "Return one bool, for example the result of a comparison, without a cast."
    )


def end_of_step(who: Any, env: AnyEnv, last: EnvState, info: Info) -> End:
    """
    How a step of `env` ended its episode.

    Parameters
    ----------
    who, info
        As for `episode_end`.
    last : EnvState
        State after the step by `step_env`, before any reset.
    """
    return episode_end(who, (), last.done, info, env.at_limit(last))


def episode_end(
    who: Any, shape: tuple[int, ...], done: Any, info: Info, at_limit: jax.Array | bool = False
) -> End:
    """
    How a step ended an episode, or those of the slots of a batch.

    An end for which `info` gives no reason is a truncation at the limit, else a termination. Where
    `done` is False both reasons are False. Of NumPy arrays it is computed by NumPy.

    Parameters
    ----------
    who : str, JaxEnv or BatchedEnv
        The function that the user called, or the environment, for error messages.
    shape : tuple of int
        Shape of the flags.
    done : jax.Array
        bool of that shape.
    info : dict
        Info of the step, perhaps with "terminated" and "truncated". If only one of them is there,
        the other is its opposite.
    at_limit : jax.Array or bool, default False
        Whether the step reached the time limit.

    Raises
    ------
    TypeError
        If one of them is not bool of that shape.
    """
    known = {name: _as_array(x) for name, x in reasons_in(info).items()}
    done = _as_array(done)
    for name, x in {**known, "done": done}.items():
        if (x.shape, x.dtype) != (shape, jnp.bool_):
            raise TypeError(
                f"{getattr(who, 'name', who)}: expected `{name}` of shape {shape}, bool; got "
                f"{x.shape} {x.dtype}. "
                "Leave out the wrapper that changes it, such as `ExpandDims` or `EpisodeDiscount`."
            )
    if len(known) == 1:
        [(name, reason)] = known.items()
        known["truncated" if name == "terminated" else "terminated"] = ~reason
    terminated = done & known.get("terminated", False)
    truncated = done & known.get("truncated", False)
    unexplained = done & ~terminated & ~truncated
    limit: Any = np.bool_(at_limit) if isinstance(at_limit, bool) else jnp.asarray(at_limit)
    return End(done, terminated | (unexplained & ~limit), truncated | (unexplained & limit))


def _as_array(x: Any) -> Any:
    return cast(Any, x) if isinstance(x, np.ndarray) else jnp.asarray(x)


def reasons_in(info: Info) -> Info:
    """Those of `terminated` and `truncated` that an info has."""
    return {name: info[name] for name in ("terminated", "truncated") if name in info}


def with_reasons(info: Info, end: End) -> Info:
    """The info of a step with why the episode ended."""
    return {**info, "terminated": end.terminated, "truncated": end.truncated}


def end_if(
    who: str,
    env: AnyEnv,
    stepped: tuple[Any, jax.Array, Info],
    terminated: jax.Array | bool = False,
    truncated: jax.Array | bool = False,
) -> tuple[jax.Array, jax.Array, Info]:
    """
    `state.done`, `done` and info of a step of `env` in which a wrapper may end the episode too.

    Parameters
    ----------
    who : str
        The wrapper, for error messages.
    env : JaxEnv
        The wrapped environment.
    stepped : (EnvState, jax.Array, dict)
        State, `done` and info of its step. `done` may be a discount: 0 at the end of an episode.
    terminated, truncated : jax.Array or bool
        Whether the wrapper terminates the episode here, or truncates it.
    """
    last, done, info = stepped
    end = end_of_step(who, env, last, info)
    ends = jnp.asarray(terminated) | truncated
    done = jnp.asarray(done)
    done = jnp.where(ends, jnp.full_like(done, done.dtype == jnp.bool_), done)
    end = End(end.done | ends, end.terminated | terminated, end.truncated | truncated)
    return end.done, done, with_reasons(info, end)
