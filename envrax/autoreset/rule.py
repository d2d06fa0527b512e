"""The rule of auto-reset: a slot whose episode ended begins the next one in the same step."""

from functools import partial
from typing import Any, Literal

import jax
from jax.sharding import PartitionSpec

from envrax._jax.keys import of_kind, to_threefry
from envrax._jax.mesh import is_sharded, sharding, varying_like, with_auto_axes
from envrax._jax.returned import strip_weak_type, with_info_entry
from envrax.autoreset.slot import (
    begin_at,
    checked_reset,
    checked_step,
    next_episode,
    require_same_types,
    require_starts,
    require_state_of,
    with_final_mask,
)
from envrax.autoreset.strategies import AutoReset, begin_if
from envrax.env import AnyEnv, EnvState, Info
from envrax.termination import end_of_step, with_reasons

Step = tuple[Any, EnvState, jax.Array, jax.Array, Info]
StepOfOne = tuple[Any, EnvState, jax.Array, jax.Array, Info, EnvState, Any]


def reset(env: AnyEnv, rngs: jax.Array) -> tuple[Any, EnvState]:
    """
    Begin an episode in every slot.

    Parameters
    ----------
    env : JaxEnv
        The environment of every slot.
    rngs : jax.Array
        PRNG keys, one for each slot.

    Returns
    -------
    obs, state
        As from `JaxEnv.reset`, with leading axis N.
    """
    return reset_slots(env, to_threefry(rngs))


def reset_slots(env: AnyEnv, rngs: jax.Array) -> tuple[Any, EnvState]:
    """`reset` with threefry keys."""
    return varying_like(rngs, jax.vmap(partial(checked_reset, env))(rngs))


def step(
    env: AnyEnv,
    autoreset: AutoReset | Literal[False] | None,
    state: EnvState,
    actions: Any,
    *,
    final_obs: bool = False,
    reasons: bool = False,
) -> Step:
    """
    Step every slot, and begin the next episode where one ended, by `env.reset_after(new_state)`.

    Parameters
    ----------
    env : JaxEnv
        The environment of every slot.
    autoreset : AutoReset, False or None
        How slots are reset; None for `choose(env, N)`; False resets nothing.
    state : EnvState
        State of all slots, leading axis N.
    actions : pytree of jax.Array
        Actions of all slots, leading axis N.
    final_obs : bool, default False
        Add to the infos `final_obs`, the observations of the step, before any reset, in every slot;
        `final_mask`, the masks of legal actions in the same states, if the environment has masks;
        and `terminated` and `truncated`.
    reasons : bool, default False
        Add only `terminated` and `truncated`.

    Returns
    -------
    obs, new_state
        Those of the step; in a slot that ended, those of its next episode.
    rewards, dones, infos
        Those of the step, in every slot.

    Raises
    ------
    TypeError
        If a result of reset or step breaks the contract, or if their states or observations
        differ in structure, shape or dtype.
    """

    one = partial(step_and_reset, env, autoreset, final_obs=final_obs, reasons=reasons)
    step_all = jax.vmap(one)
    if not is_sharded((state, actions)):
        return step_all(state, actions)[:5]
    slots = PartitionSpec(*sharding(state.done).spec)
    of_state = jax.tree.map(lambda x: sharding(x).spec, state)
    out = slots, of_state, slots, slots, slots, of_state, slots
    return with_auto_axes(step_all, out, state, actions)[:5]


def step_one(
    env: AnyEnv, state: EnvState, action: Any, autoreset: AutoReset | Literal[False] | None = None
) -> StepOfOne:
    """
    Step one environment, and begin the next episode where this one ended.

    Under `jax.vmap` the slots that ended are reset with the strategy `autoreset`.

    Returns
    -------
    obs, new_state
        Those of the step; where the episode ended, those of the next one.
    reward, done, info
        Those of the step.
    last : EnvState
        The state of the step, before any reset. Its `done` says whether the episode ended.
    final_obs : pytree of jax.Array
        The observation of the step, before any reset.
    """
    return step_and_reset(env, autoreset, state, action)


def step_and_reset(
    env: AnyEnv,
    autoreset: AutoReset | Literal[False] | None,
    state: EnvState,
    action: Any,
    *,
    final_obs: bool = False,
    reasons: bool = False,
) -> StepOfOne:
    """`step_one`, with the infos that `step` adds; `jax.vmap` makes it that of all slots."""
    try:
        obs, last, reward, done, info = checked_step(env, state, action)
        if autoreset is False:
            types = jax.eval_shape(partial(next_episode, env), last)
            found = {"obs": obs, "state": last}
            require_same_types(env, {"obs": types[0], "state": types[1]}, found, after_end=True)
            first, new_state = obs, last
        elif env.traceable:
            first, new_state = begin_if(env, autoreset, next_episode, last, last.done, obs, last)
        else:
            first, new_state = next_episode(env, last) if bool(last.done) else (obs, last)
    except Exception as error:
        require_state_of(env, state, error)
        raise
    if final_obs or reasons:
        if final_obs:
            info = with_final_mask("VecEnv.step", env, last, info)
            info = with_info_entry("VecEnv.step", env, info, "final_obs", obs)
        info = with_reasons(info, end_of_step(env, env, last, info))
    return first, new_state, reward, done, info, last, obs


def begin_where(
    env: AnyEnv,
    autoreset: AutoReset | Literal[False] | None,
    mask: jax.Array,
    state: EnvState,
    rngs: jax.Array | None = None,
    starts: Any = None,
) -> tuple[Any, EnvState]:
    """
    Begin an episode in the slots of a mask.

    Parameters
    ----------
    env : JaxEnv
        The environment of every slot.
    autoreset : AutoReset, False or None
        How slots are reset; False and None for `choose(env, N)`.
    mask : jax.Array
        bool[N].
    state : EnvState
        State of all slots, leading axis N.
    rngs : jax.Array, optional
        PRNG keys, one for each slot. Without them by `env.reset_after(state)`.
    starts : (obs, state), optional
        How the innermost environment of each slot begins, in place of its own reset.

    Returns
    -------
    first : pytree of jax.Array
        First observations in the slots of the mask, zeros in the others.
    state : EnvState
        Of all slots.
    """
    how = next_episode if rngs is None else checked_reset
    source = state if rngs is None else of_kind(to_threefry(rngs), state.rng)
    state = strip_weak_type(state)
    starts = strip_weak_type(starts)
    if starts is not None:
        require_starts(env, starts, state)

    def begin(env: AnyEnv, source_and_start: tuple[Any, Any]) -> tuple[Any, EnvState]:
        source, start = source_and_start
        return how(env, source) if start is None else begin_at(env, how, source, start)

    def all_slots(source: Any, mask: Any, state: Any) -> tuple[Any, EnvState]:
        def one(source: Any, begins: jax.Array, state: Any) -> tuple[Any, EnvState]:
            return begin_if(env, autoreset or None, begin, source, begins, None, state)

        return jax.vmap(one)(source, mask, state)

    source = source, starts
    if not is_sharded((source, mask, state)):
        return all_slots(source, mask, state)
    slots = PartitionSpec(*sharding(state.done).spec)
    out = slots, jax.tree.map(lambda x: sharding(x).spec, state)
    return with_auto_axes(all_slots, out, source, mask, state)
