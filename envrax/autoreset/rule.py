"""The rule of auto-reset: a slot whose episode ended begins the next one in the same step."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
import jax.core
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jax.extend.core import Var
from jax.sharding import PartitionSpec

from envrax._jax.keys import clone_keys, threefry
from envrax._jax.mesh import is_sharded, sharding, varying_like, with_auto_axes
from envrax.autoreset.checks import require_same_types
from envrax.autoreset.slot import next_episode, reset_slot, step_slot
from envrax.autoreset.strategies import AutoReset, ResetOne, select, strategy_for
from envrax.env import AnyEnv, EnvState, Info

Step = tuple[Any, EnvState, jax.Array, jax.Array, Info, Any]


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
    return varying_like(rngs, jax.vmap(partial(reset_slot, env))(threefry(rngs)))


def step(env: AnyEnv, autoreset: AutoReset | None, state: EnvState, actions: Any) -> Step:
    """
    Step every slot, and begin the next episode where one ended, by `env.reset_after(new_state)`.

    Parameters
    ----------
    env : JaxEnv
        The environment of every slot.
    autoreset : AutoReset or None
        How slots are reset; None for `choose(env, N)`.
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
        If a result of reset or step breaks the contract, or if their states or observations
        differ in structure, shape or dtype.
    """

    def step_all(state: EnvState, actions: Any) -> Step:
        def one(state: EnvState, action: Any) -> Step:
            obs, state, reward, done, info, _, last = step_one(env, state, action, autoreset)
            return obs, state, reward, done, info, last

        return jax.vmap(one)(state, actions)

    if not is_sharded((state, actions)):
        return step_all(state, actions)
    slots = PartitionSpec(*sharding(state.done).spec)
    out = slots, jax.tree.map(lambda x: sharding(x).spec, state), slots, slots, slots, slots
    return with_auto_axes(step_all, out, state, actions)


def step_one(
    env: AnyEnv, state: EnvState, action: Any, autoreset: AutoReset | None = None
) -> tuple[Any, EnvState, jax.Array, jax.Array, Info, jax.Array, Any]:
    """
    Step one environment, and begin the next episode where this one ended.

    Mapped with `jax.vmap`, it resets only the slots that ended, by `autoreset`.

    Returns
    -------
    obs, new_state
        Those of the step; where the episode ended, those of the next one.
    reward, done, info
        Those of the step.
    ended : jax.Array
        bool scalar, whether the episode ended.
    final_obs : pytree of jax.Array
        The observation of the step, before any reset.
    """
    obs, last, reward, done, info, ended = step_slot(env, state, action)
    if env.traceable:
        begun = _merged(env, autoreset, ended, obs, last)
    else:
        begun = next_episode(env, last) if bool(ended) else {"obs": obs, "state": last}
    return begun["obs"], begun["state"], reward, done, info, ended, obs


def _merged(
    env: AnyEnv, autoreset: AutoReset | None, ended: jax.Array, obs: Any, state: EnvState
) -> dict[str, Any]:
    """Observation and state after auto-reset. Leaves that no reset changes are not copied."""
    closed, out = jax.make_jaxpr(partial(next_episode, env), return_shape=True)(state)
    require_same_types(env, out, {"obs": obs, "state": state})
    program = closed.jaxpr
    # Flattened as obs and then state, like `out`.
    same = [None] * len(jax.tree.leaves(obs)) + program.invars
    changes = [a is not b for a, b in zip(program.outvars, same, strict=True)]
    operands = [v for eqn in program.eqns for v in eqn.invars]
    read = {v for v in (*operands, *_those(changes, program.outvars)) if isinstance(v, Var)}
    reads = [v in read for v in program.invars]

    def reset_one(consts: list[Any], last: list[Any]) -> list[Any]:
        given = iter(last)
        arguments = [next(given) if is_read else None for is_read in reads]
        return clone_keys(_those(changes, jax.core.eval_jaxpr(program, consts, *arguments)))

    leaves, tree = cast(Any, jax.tree.flatten({"obs": obs, "state": state}))
    last = clone_keys(_those(reads, jax.tree.leaves(state)))
    stepped = clone_keys(_those(changes, leaves))  # wrappers hold the same key
    choose = partial(strategy_for, autoreset, program)
    new = iter(clone_keys(_reset_where(reset_one, choose, closed.consts, last, ended, stepped)))
    pairs = zip(changes, leaves, strict=True)
    return jax.tree.unflatten(tree, [next(new) if is_new else x for is_new, x in pairs])


def _reset_where(
    reset_one: ResetOne,
    choose: Callable[[int], AutoReset],
    consts: list[Any],
    last: list[Any],
    ended: jax.Array,
    stepped: list[Any],
) -> list[Any]:
    """`reset_one(consts, last)` where the episode ended, else `stepped`; of one slot."""

    @custom_vmap
    def merge(consts: list[Any], last: Any, ended: jax.Array, stepped: Any) -> Any:
        # Both branches need equal types, in a `shard_map` too.
        which, kept = varying_like((consts, last, ended, stepped), (ended, stepped))
        reset = lambda: varying_like(which, reset_one(consts, last))  # noqa: E731
        return cast(Any, lax.cond(which, reset, lambda: kept))

    @merge.def_vmap
    def merge_slots(n_slots: int, is_mapped: list[Any], consts: list[Any], *slots: Any) -> Any:
        # A select, if what a reset uses differs between slots, there are none, or they lie along an
        # Explicit mesh axis, where JAX refuses to gather them.
        is_own = any(jax.tree.leaves(is_mapped[0]))
        if is_own or n_slots == 0 or is_sharded((consts, slots)):
            axes = jax.tree.map(lambda mapped: 0 if mapped else None, tuple(is_mapped))
            merged = jax.vmap(partial(select, reset_one), axes, axis_size=n_slots)(consts, *slots)
        else:
            spread = partial(_spread, n_slots)
            last, ended, stepped = jax.tree.map(spread, slots, tuple(is_mapped[1:]))
            merged = choose(n_slots)(reset_one, consts, last, ended, stepped)
        return merged, jax.tree.map(lambda _: True, merged)

    # A loop of unknown length has no reverse mode; a select has.
    differentiable = jax.custom_jvp(merge)
    differentiable.defjvp(partial(jax.jvp, partial(select, reset_one)))
    return differentiable(consts, last, ended, stepped)


def _spread(n_slots: int, x: jax.Array, is_mapped: bool) -> jax.Array:
    return x if is_mapped else jnp.broadcast_to(x, (n_slots, *x.shape))


def _those(chosen: list[bool], leaves: list[Any]) -> list[Any]:
    return [x for is_chosen, x in zip(chosen, leaves, strict=True) if is_chosen]
