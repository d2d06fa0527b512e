"""`start` and `rollout`: many steps of a policy in an environment, as one compiled call."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from tqdm.auto import tqdm

from envrax._checks.counts import NO_LIMIT, require_count
from envrax._checks.streams import can_show_progress
from envrax._fleet.fleet import Fleet
from envrax._jax.copies import copy_numpy
from envrax._jax.functions import as_jitted, trace
from envrax._jax.keys import is_key, require_key, to_threefry
from envrax._jax.mesh import replicate, varying_like
from envrax._jax.programs import compilation_within, programs
from envrax._jax.returned import numbers_as_arrays, strip_weak_type
from envrax._jax.types import is_inside_jit, is_traced
from envrax.autoreset.rule import step_and_reset
from envrax.autoreset.slot import checked_reset
from envrax.batched_env import (
    AnyBatch,
    BatchedEnv,
    StepOptions,
    goes_straight,
    require_final_obs,
    shows_last,
    step_with,
)
from envrax.compiled_batch import compilation_of, layout_of
from envrax.env import AnyEnv, JaxEnv
from envrax.rollouts.policy import (
    AnyPolicy,
    Policies,
    Policy,
    TracedPolicy,
    call_compiled,
    call_policy,
    inputs_of,
    on_devices_of,
    read_policy,
    require_env,
    trace_policy,
)
from envrax.spaces.conform import conform
from envrax.termination import episode_end, reasons_in

CHUNKS = 20  # of a rollout with a progress bar


class Rollout(NamedTuple):
    """
    The position of a rollout: everything that the next step depends on.

    Attributes
    ----------
    obs : pytree of jax.Array
        The observation that the policy sees next.
    env_state : pytree
        State of the environment.
    policy_state : pytree
        State of the policy.
    rng : jax.Array
        PRNG key for the policy's randomness.
    """

    obs: Any
    env_state: Any
    policy_state: Any
    rng: jax.Array


class Transition(NamedTuple):
    """
    One step; `rollout` returns it with a leading time axis on each leaf.

    Attributes
    ----------
    obs, action : pytree of jax.Array
        The observation before the step, and the action of the policy.
    reward : jax.Array
        As the environment returned it.
    done, terminated, truncated : jax.Array
        bool: whether an episode ended in this step, and why. Without a reason of the environment
        an end is a truncation where `at_limit`, else a termination.
    next_obs : pytree of jax.Array
        The observation after the step, before any reset; where an episode ended, the next `obs` is
        the first one of the next episode. To bootstrap, take the value of `next_obs` wherever
        `terminated` is False. None for a simulator that does not show it, as in `from_rsl_rl`.
    info : dict
        The info of the step, with `terminated` and `truncated`; and with `final_mask`, the mask of
        the legal actions in the state of `next_obs`, if the environment has masks.
    extras : pytree
        The extras that the policy returned, such as log-probabilities.
    """

    obs: Any
    action: Any
    reward: jax.Array
    done: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    next_obs: Any
    info: dict[str, Any]
    extras: Any


def start(env: AnyEnv | AnyBatch | Fleet, rng: jax.Array, policy_state: Any = None) -> Rollout:
    """
    Begin a rollout: `rng, key = jax.random.split(rng)`, and reset with `key`.

    Parameters
    ----------
    env : JaxEnv, BatchedEnv, MultiEnv or MultiVecEnv
        The environment. Of a fleet, every field of the result is a list or dict with the values of
        the members, and member i begins with `jax.random.split(rng, M)[i]`.
    rng : jax.Array
        One PRNG key.
    policy_state : pytree, optional
        State that the policy carries from step to step, for all slots, such as the memory of a
        recurrent network. It may hold parameters too. Of a fleet, a list or dict with one for each
        member.

    Returns
    -------
    Rollout
        The argument `start` of `rollout`.
    """
    require_key(rng, "start", "Pass one key.")
    if isinstance(env, Fleet):
        fleet = cast(Any, env)
        rngs = {"rng": fleet._split(rng)}
        return Rollout(*fleet._map("start", start, rngs, policy_state=policy_state))
    require_env("start", env)
    layout = layout_of(env)
    if layout is not None:
        rng, policy_state = replicate((rng, policy_state), layout.mesh, "start")
    if is_traced(rng) or goes_straight(env, rng):
        rng, key = _split(env, rng)
        begun = env.reset(key) if isinstance(env, BatchedEnv) else checked_reset(env, key)
        obs, state = varying_like(key, begun)
    else:
        rng, key = _compiled_split(env)(rng)
        obs, state = _first_of(env, key)
    return Rollout(copy_numpy(obs), state, as_arrays(policy_state), rng)


def _split(_: Any, rng: jax.Array) -> tuple[jax.Array, jax.Array]:
    rng, key = jax.random.split(to_threefry(rng))
    return rng, key


def _first_of(env: AnyEnv | AnyBatch, key: jax.Array) -> tuple[Any, Any]:
    """The first observation and state, by a program that is compiled through the cache."""
    if isinstance(env, JaxEnv):
        return _not_shared(_compiled_reset_of_one(env)(key))
    if compilation_within(env) is not None and getattr(env, "compiled_with", None) is None:
        return _compiled_reset(env)(key)  # of a wrapper around a batch that was compiled ahead
    begun = env.reset(key)
    return begun if compilation_of(env) else _not_shared(begun)


def _not_shared(returned: Any) -> Any:
    """The same arrays without two that share memory, such as a key: those cannot be donated."""
    return jax.device_put(returned, may_alias=False)


_compiled_split = programs(_split)
_compiled_reset_of_one = programs(checked_reset)
_compiled_reset = programs(lambda env, key: env.reset(key))


def rollout(
    env: AnyEnv | AnyBatch | Fleet,
    policy: Policy | Policies | None,
    start: Rollout,
    n_steps: int,
    *,
    progress: bool = False,
    collect: Callable[[Transition], Any] | None = None,
) -> tuple[Rollout, Any]:
    """
    Take `n_steps` steps, in every slot of a batch, across the ends of episodes.

    It is one compiled scan, and works inside the caller's own `jit`, `vmap` and `grad`. An
    environment on the host is stepped by a Python loop, with a compiled policy.

    Parameters
    ----------
    env : JaxEnv, BatchedEnv, MultiEnv or MultiVecEnv
        The environment. A `JaxEnv` is auto-reset as in a `VecEnv`. A batch is stepped with
        `final_obs=True`. The members of a fleet are played one after the other, each on its own.
    policy : callable or None
        `policy(policy_state, obs, rng) -> (action, policy_state, extras)`, a function that JAX can
        trace. For a batch it gets the observations of all slots and one key. Two more parameters
        are optional: `mask` gets `env.action_mask(env_state)` (None if all actions are legal);
        `first` gets bools, True where the observation begins an episode, to clear a memory.
        Without a policy, actions are uniform among the legal ones. For a fleet, one policy
        for all members, each called on its own, or a list or dict with one for each.

        A policy that you compiled is the quick one in a Python loop: `jax.jit(policy)`, or a
        partial, a bound method or a pytree around a compiled function. It is traced once for its
        types, as by JAX: its arrays and `policy_state` are arguments, and what it closes over stays
        as traced. Any other policy is read at each call of `rollout`: arrays that it holds or
        closes over count as they are then, and other arrays of the same types compile nothing. A
        Python number that it closes over, or another function, compiles once for each value. A
        policy may be a pytree, such as `jax.tree_util.Partial(apply, params)`: its floats are
        arrays. A call must not change a policy: what changes belongs in `policy_state`.
    start : Rollout
        Where to begin: from `start`, or from the last call, which continues bit-identically to one
        longer call.
    n_steps : int
        Number of steps. Each does `rng, key = jax.random.split(rng)`, and `key` is for the policy.
    progress : bool, default False
        Show a progress bar: the scan runs in twenty pieces. No effect inside `jit`.
    collect : callable, optional
        `collect(transition) -> pytree of jax.Array`: what to keep of each step, in place of the
        whole `Transition`, such as `lambda t: (t.obs, t.action, t.reward)`. It is read as a policy
        is.

    Returns
    -------
    Rollout
        Where to continue.
    Transition
        All steps: each leaf with leading axis `n_steps`. With `collect`, what it returned. Of a
        fleet, every field of both results, or what was collected, is a list or dict with the
        values of the members.

    Raises
    ------
    TypeError
        If `start` is not a Rollout, the policy does not return such a triple, changes itself or the
        types of `policy_state`, or a batch has no `final_obs`.
    ValueError
        If `n_steps` is below 1, or above 2**31 - 1.

    Examples
    --------
    >>> from envrax import VecEnv
    >>> from envrax.testing import CountingEnv
    >>> env = VecEnv(CountingEnv(), 3)
    >>> begin = start(env, jax.random.key(0))
    >>> end, steps = rollout(env, None, begin, 100)
    >>> steps.reward.shape, int(steps.done.sum())
    ((100, 3), 60)
    """
    n_steps = require_count("rollout: expected n_steps", n_steps, most=NO_LIMIT)
    if not isinstance(cast(Any, start), Rollout):
        raise TypeError(
            f"rollout: expected to begin at a Rollout; got {type(start).__name__}. Pass "
            "`envrax.start(env, rng)`, or the first result of the last `rollout`."
        )
    if collect is not None and not callable(cast(Any, collect)):
        raise TypeError(
            f"rollout: expected collect to be a function of a Transition; got {collect!r}. Pass "
            "such as `lambda step: step.reward`."
        )
    if isinstance(env, Fleet):
        fleet = cast(Any, env)

        def one(member: Any, policy: Any, **position: Any) -> tuple[Any, ...]:
            how: Any = dict(progress=progress, collect=collect)
            end, steps = rollout(member, policy, Rollout(**position), n_steps, **how)
            return (*end, *steps) if collect is None else (*end, steps)

        own = {"policy": [policy] * len(fleet)} if callable(policy) else {}
        out = fleet._map("rollout", one, own, policy=policy, **start._asdict())
        return Rollout(*out[:4]), Transition(*out[4:]) if collect is None else out[4]
    require_env("rollout", env)
    for write in getattr(env, "_write_first", ()):
        write()
    played, jitted = read_policy(env, cast(Any, policy))
    straight = goes_straight(env, (start, played.arrays))
    if not straight and is_traced((start, played.arrays)):
        return _scan(env, played, collect, n_steps, start)
    played = trace_policy(env, played, start)
    # A policy that closes over tracers is a part of the caller's own program, a `grad` for example.
    closed_over = played.traced.constants if isinstance(played, TracedPolicy) else []
    if closed_over and is_traced(closed_over) and env.traceable:
        return _scan(env, played, collect, n_steps, start)
    if straight:
        return _on_the_host(env, played, collect, n_steps, start, progress)
    owners = [env] if jitted is None else [env, jitted]
    if collect is not None:
        collect, compiled = _trace_collect(env, played, collect, start)
        owners += [] if compiled is None else [compiled]
    run = _compiled_scan(*owners)
    if progress and not is_inside_jit():
        return _in_pieces(run, played, collect, n_steps, start)
    return run(played, collect, n_steps, start)


def _trace_collect(
    env: AnyEnv | AnyBatch, policy: AnyPolicy, collect: Any, position: Rollout
) -> tuple[Any, Any]:
    """`collect` as it is now, and what of it the user compiled."""
    jitted = as_jitted(collect)
    if jitted is not None:
        return on_devices_of(env, jitted), jitted.function
    types = _transition_types(env).eval_shape(policy, position)
    shown = getattr(collect, "__qualname__", repr(collect))
    hint = "Return what you need."

    def kept(_: Any, step: Transition) -> Any:
        returned = collect(step)
        return numbers_as_arrays(
            "collect: expected the call to return", {"kept": returned}, returned
        )

    traced = trace(kept, [], (types,), "collect", shown, hint)
    return on_devices_of(env, traced), None


def _scan(
    env: AnyEnv | AnyBatch, policy: AnyPolicy, collect: Any, n_steps: int, start: Rollout
) -> tuple[Rollout, Any]:
    step = partial(play_step, env, policy, collect=collect)
    return jax.lax.scan(step, strip_weak_type(start), length=n_steps)


_compiled_scan = programs(_scan, 2)
_transition_types = programs(
    lambda env, policy, position: play_step(env, policy, strip_weak_type(position))[1]
)


def play_step(
    env: AnyEnv | AnyBatch,
    policy: AnyPolicy,
    position: Rollout,
    _: Any = None,  # `jax.lax.scan` passes it
    *,
    collect: Any = None,
    straight: bool = False,
) -> tuple[Rollout, Any]:
    """
    One step of a policy: where to go on, and the `Transition` or what `collect` keeps of it.

    The policy is compiled on its own where the call goes `straight` to the host.
    """
    rng, action, policy_state, extras = act(env, policy, position, straight)
    if isinstance(env, JaxEnv):
        action = conform(env.action_space, action, "policy", "action")
        stepped = step_and_reset(env, None, position.env_state, action, final_obs=True)
        obs, state, reward, _, info, *_ = stepped
        terminated, truncated = info["terminated"], info["truncated"]
        done = terminated | truncated  # a wrapper may have changed the type of the flag
    else:
        if not isinstance(action, jax.Array):  # such as a list of one number for each slot
            action = conform(env.action_space, action, f"{type(env).__name__}.step")
        has_last = shows_last(env)
        options = StepOptions(final_obs=has_last, reasons=True, straight=straight)
        obs, state, reward, done, info = step_with(env, position.env_state, action, options)
        if has_last:
            require_final_obs(type(env).__name__, info)
        shape = (env.n_slots,)
        if straight and not isinstance(done, np.ndarray):
            ends = _compiled_end(env.name, shape, done, reasons_in(info))
        else:
            ends = episode_end(env, shape, done, info)
        done, terminated, truncated = ends
    info = {**info, "terminated": terminated, "truncated": truncated}
    next_obs = info.pop("final_obs", None)
    transition = Transition(
        position.obs, action, reward, done, terminated, truncated, next_obs, info, extras
    )
    kept = transition if collect is None else collect(transition)
    return Rollout(obs, state, policy_state, rng), kept


_compiled_end: Any = jax.jit(episode_end, static_argnums=(0, 1))


def act(
    env: AnyEnv | AnyBatch, policy: AnyPolicy, position: Rollout, straight: bool
) -> tuple[Any, Any, Any, Any]:
    """The next key, the action, and the new state and the extras of the policy."""
    call = call_compiled(env) if straight else call_policy
    return call(policy, *inputs_of(env, policy.extra_names, position))


def _in_pieces(
    run: Any, policy: AnyPolicy, collect: Any, n_steps: int, position: Rollout
) -> tuple[Rollout, Any]:
    size = -(-n_steps // CHUNKS)
    parts: list[Any] = []
    with _progress_bar(n_steps, True) as bar:
        for begin in range(0, n_steps, size):
            length = min(size, n_steps - begin)
            position, part = run(policy, collect, length, position)
            parts.append(jax.block_until_ready(part))
            bar.update(length)
    return position, jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def _on_the_host(
    env: Any, policy: AnyPolicy, collect: Any, n_steps: int, position: Rollout, progress: bool
) -> tuple[Rollout, Any]:
    steps: list[Any] = []
    with _progress_bar(n_steps, progress) as bar:
        for _ in range(n_steps):
            position, kept = play_step(env, policy, position, collect=collect, straight=True)
            steps.append(copy_numpy(kept))
            # A simulator may write the next observation over this one.
            position = position._replace(obs=copy_numpy(position.obs))
            bar.update()
    return position, jax.tree.map(_stacked, *steps)


def _progress_bar(n_steps: int, progress: bool) -> Any:
    shown = progress and can_show_progress()
    return tqdm(total=n_steps, desc="Rollout", unit=" steps", disable=not shown)


def _stacked(*leaves: Any) -> Any:
    if is_key(leaves[0]):
        return jnp.stack(leaves)
    return jnp.asarray(np.stack(leaves))  # compiles nothing, however many there are


def as_arrays(policy_state: Any) -> Any:
    """The state of a policy as arrays that nobody else writes to."""
    try:
        return strip_weak_type(policy_state)
    except (TypeError, ValueError):  # the next line names the leaf
        named = {"policy_state": policy_state}
        return numbers_as_arrays("start: expected policy_state to hold", named, policy_state)
