"""Step a batch, and reset the slots whose episode ended."""

from functools import partial
from typing import Any

import jax
from jax.sharding import PartitionSpec

from envrax._jax.mesh import is_sharded, sharding, varying_like, with_auto_axes
from envrax.autoreset.choice import Choice
from envrax.autoreset.slot import reset_slot, step_slot
from envrax.autoreset.strategies import AutoReset
from envrax.autoreset.traced import TracedReset
from envrax.env import AnyEnv, EnvState, Info


def reset(env: AnyEnv, num_envs: int, rng: jax.Array) -> tuple[Any, EnvState]:
    """
    Begin an episode in every slot, one key each.

    Parameters
    ----------
    env : JaxEnv
        The environment, copied `num_envs` times.
    num_envs : int
        Number of slots.
    rng : jax.Array
        One PRNG key.

    Returns
    -------
    obs, state
        As from `JaxEnv.reset`, with leading axis `num_envs`.
    """
    return reset_part(env, num_envs, 1, rng, 0)


def reset_part(
    env: AnyEnv, num_envs: int, n_parts: int, rng: jax.Array, part: Any
) -> tuple[Any, EnvState]:
    """`reset`, of the slots in one of `n_parts` equal parts, which may be traced."""
    rngs = jax.random.split(rng, num_envs)
    if n_parts > 1:  # a slot has the same key wherever it lives
        size = num_envs // n_parts
        rngs = jax.lax.dynamic_slice_in_dim(rngs, part * size, size)
    return varying_like(rng, jax.vmap(lambda rng: reset_slot(env, rng))(rngs))


def step(
    env: AnyEnv, autoreset: AutoReset | None, state: EnvState, actions: Any
) -> tuple[Any, EnvState, jax.Array, jax.Array, Info, Any]:
    """
    Step every slot, and reset those whose episode ended.

    A slot that ended is reset by `env.reset_after(new_state)`.

    Parameters
    ----------
    env : JaxEnv
        The environment of every slot.
    autoreset : AutoReset or None
        How the slots that ended are reset; None for what `choose` says.
    state : EnvState
        State of all slots, leading axis N.
    actions : pytree of jax.Array
        Actions of all slots, leading axis N.

    Returns
    -------
    obs, new_state
        Those of the step; in a slot that ended, those of its next episode.
    rewards, dones, infos
        Those of the step, in every slot.
    final_obs : pytree of jax.Array
        The observations of the step, before any reset, in every slot.

    Raises
    ------
    TypeError
        If what reset or step returns breaks the contract, or if their states or observations
        differ in structure, shape or dtype.
    """
    return step_by(Choice(env, state.done.size, autoreset), state, actions)


def step_by(choice: Choice, state: EnvState, actions: Any) -> Any:
    """`step`, with the strategy that `choice` has made or now makes."""
    step = partial(_step_slots, choice)
    if not is_sharded((state, actions)):
        return step(state, actions)
    slots = PartitionSpec(*sharding(state.done).spec)
    out = slots, jax.tree.map(lambda x: sharding(x).spec, state), slots, slots, slots, slots
    return with_auto_axes(step, out, state, actions)


def _step_slots(choice: Choice, state: EnvState, actions: Any) -> Any:
    env, resets = choice.env, list[Any]()

    def one_slot(state: EnvState, action: Any) -> tuple[Any, ...]:
        obs, new_state, reward, done, info, ended = step_slot(env, state, action)
        # Traced here, since only here a key has the type of one slot's key, under any mesh.
        resets.append(TracedReset(env, obs, new_state))
        return obs, new_state, reward, done, info, ended

    obs, new_state, rewards, dones, infos, ended = jax.vmap(one_slot)(state, actions)
    merged = resets[0].merged(choice, ended, obs, new_state)
    return merged["obs"], merged["state"], rewards, dones, infos, obs
