"""`evaluate`: returns and lengths of whole episodes."""

from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.counts import NO_LIMIT, require_count
from envrax._fleet.fleet import Fleet
from envrax._jax.copies import copy_numpy
from envrax._jax.keys import clone_keys, is_key, key_for_each, require_key, require_keys
from envrax._jax.mesh import on_every_device, reshard, where_slots, while_loop, zeros_like
from envrax._jax.programs import programs
from envrax._jax.types import is_traced
from envrax.agent_values import add_rewards, by_agent
from envrax.autoreset.slot import checked_step, require_same_types
from envrax.batched_env import AnyBatch, StepOptions, goes_straight, step_with
from envrax.compiled_batch import layout_of
from envrax.env import AnyEnv, JaxEnv
from envrax.rollouts.policy import (
    AnyPolicy,
    JittedPolicy,
    PlainPolicy,
    Policies,
    Policy,
    PolicyPerSlot,
    TracedPolicy,
    UniformPolicy,
    extra_inputs_of,
    on_devices_of,
    policy_per_slot,
    read_policy,
    require_env,
    trace_for_slot,
    trace_policy,
)
from envrax.rollouts.results import (
    Evaluation,
    Tally,
    add_step,
    first_tally,
    must_go_on,
    without_missing,
)
from envrax.rollouts.rollout import Rollout, act, as_arrays, play_step, start
from envrax.spaces.conform import conform
from envrax.termination import End, end_of_step, episode_end, with_reasons
from envrax.wrappers.vector.base import BatchedWrapper

_OPTIONS = StepOptions(autoreset=False, reasons=True)
_ONE_OR_EACH = "Pass one key, or one for each episode."


def evaluate(
    env: AnyEnv | AnyBatch | Fleet,
    policy: Policy | Policies | None,
    rng: jax.Array,
    n_episodes: int | None = None,
    *,
    policy_state: Any = None,
    max_steps: int | None = None,
    as_rollout: bool = False,
) -> Evaluation:
    """
    Returns and lengths of `n_episodes` episodes, each played to its end.

    Episode i is the first one that `rollout` plays in one environment from
    `start(env, jax.random.split(rng, n_episodes)[i], policy_state)`: its key decides its start and
    the randomness of the policy. So results do not depend on the number of slots or devices, up to
    the rounding of a policy by the size of its batch.

    Parameters
    ----------
    env : JaxEnv, BatchedEnv, MultiEnv or MultiVecEnv
        The environment. All episodes of a `JaxEnv` run in parallel; those of a batch run in its
        slots, and a slot whose episode is over begins the next one. Every member of a fleet plays
        `n_episodes`, member i with `jax.random.split(rng, M)[i]`.
    policy : callable or None
        As for `rollout`; its extras are dropped. For a batch it is called for every slot on its
        own, as for a batch of one slot: an observation has shape `(1, ...)`.
    rng : jax.Array
        One PRNG key; or a key for each episode, to play the same episodes again.
    n_episodes : int, optional
        Number of episodes; not needed with a key for each.
    policy_state : pytree, optional
        State of the policy at the beginning of each episode. For a batch, that of a batch of one
        slot; with `as_rollout=True`, that of all slots.
    max_steps : int, optional
        Cut episodes after that many steps. Without it, the call returns only when all episodes have
        ended.
    as_rollout : bool, default False
        Play the episodes of a batch as `rollout` does, for a policy that must be called for all
        slots at once: see the notes. One that reads no observation, and whose actions have a row
        for each slot, is played so in any case.

    Returns
    -------
    Evaluation
        Each leaf has the leading axis `n_episodes`. For a fleet, every field is a list or dict.

    Raises
    ------
    TypeError, ValueError
        As for `rollout`; or if `n_episodes` is missing, or is not the number of keys.

    Notes
    -----
    With `as_rollout=True`, and in a batch that cannot begin an episode of a slot by a key, the
    episodes are those of `rollout` from `start(env, rng, policy_state)`. Such a batch is a
    simulator on the host, `agents_as_slots`, `RecordVideo`, one with running statistics that are
    not frozen, a batch of your own, or a wrapper of your own that overrides `reset` or `step`. The
    results depend on the number of slots. The episodes that start first count, in order of their
    slots; the first that end would be biased, since short ones end first. The policy is called for
    all slots. A slot cannot be reset at a cut: it plays to the end of its episode, uncounted. After
    `max_steps * ceil(n_episodes / n_slots)` steps no more episodes begin; the returns of those are
    NaN, with a warning. Use as many slots as episodes.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> found = evaluate(CountingEnv(), None, jax.random.key(0), 4)
    >>> found.lengths.tolist()
    [5, 5, 5, 5]
    """
    n_keys, n_episodes, max_steps = require_counts("evaluate", rng, n_episodes, max_steps)
    if isinstance(env, Fleet):
        fleet = cast(Any, env)
        require_key(rng, "evaluate", "Pass one key; the fleet splits it.")
        how: Any = dict(n_episodes=n_episodes, max_steps=max_steps, as_rollout=as_rollout)

        def one(member: Any, policy: Any, rng: jax.Array, policy_state: Any) -> Evaluation:
            return evaluate(member, policy, rng, policy_state=policy_state, **how)

        own: Any = {"rng": fleet._split(rng)}
        if callable(policy):
            own["policy"] = [policy] * len(fleet)
        given = dict(policy=policy, policy_state=policy_state)
        return Evaluation(*fleet._map("evaluate", one, own, **given))
    require_env("evaluate", env)
    for write in getattr(env, "_write_first", ()):
        write()
    played, jitted = read_policy(env, cast(Any, policy))
    owners = [env] if jitted is None else [env, jitted]
    run = partial(_run, owners, n_episodes, max_steps)
    if isinstance(env, JaxEnv):
        return run(side_by_side, read_for_one(env, played, rng, policy_state), rng, policy_state)
    takes_keys = not as_rollout and getattr(env, "copied_env", None) is not None
    if takes_keys and not isinstance(played, PlainPolicy):
        found = run(begin_by_key, played, rng, as_arrays(policy_state))
        if found is not None:
            return found
    position = _begin_with(env, rng, policy_state)
    if takes_keys and isinstance(played, PlainPolicy):
        of_slot = trace_for_slot(env, played, position)
        if of_slot is not None:
            return run(by_key, of_slot, rng, position)
    if n_keys is not None:
        require_key(rng, "evaluate", "Pass one key: these slots take none for each episode.")
    straight = goes_straight(env, (position, played.arrays))
    if straight or not is_traced((position, played.arrays)):
        played = trace_policy(env, played, position)
    if straight:
        found = in_turn(env, n_episodes, max_steps, played, position, straight=True)
    else:
        found = run(in_turn, played, position)
    return without_missing(found, n_episodes)


def require_counts(
    who: str, rng: Any, n_episodes: Any, max_steps: Any
) -> tuple[int | None, int, int]:
    """The number of keys, None for one that is split; of episodes; and the most steps of one."""
    n_keys = require_keys(rng, who, _ONE_OR_EACH)
    if n_keys is None:
        n_episodes = require_count(f"{who}: expected n_episodes", n_episodes)
    elif n_episodes in (None, n_keys):
        n_episodes = require_count(f"{who}: expected the number of keys", n_keys)
    else:
        raise ValueError(f"{who}: expected a key for each of {n_episodes} episodes; got {n_keys}.")
    if max_steps is None:
        return n_keys, n_episodes, NO_LIMIT
    max_steps = require_count(f"{who}: expected max_steps", max_steps)
    return n_keys, n_episodes, min(max_steps, NO_LIMIT)


def _run(owners: list[Any], n: int, max_steps: int, function: Any, *given: Any) -> Any:
    """`function`, as a compiled program unless it runs on the host or within one."""
    env = owners[0]
    if not env.traceable or is_traced(given):
        return function(env, n, max_steps, *given)
    return _compiled[function](*owners)(n, max_steps, *on_devices_of(env, given))


# One environment -------------------------------------------------------------------------------


def read_for_one(env: AnyEnv, policy: AnyPolicy, rng: Any, policy_state: Any) -> AnyPolicy:
    """The policy of one environment as it is now, unless the caller's own program calls it."""
    if not isinstance(policy, PlainPolicy) or not env.traceable:
        return policy
    if is_traced((rng, policy_state, policy.arrays)):
        return policy
    one_rng = jax.eval_shape(lambda: key_for_each(rng, 1)[0])
    return trace_policy(env, policy, _types_at_start(env).eval_shape(one_rng, policy_state))


_types_at_start = programs(start)


def side_by_side(
    env: AnyEnv, n_episodes: int, max_steps: int, policy: AnyPolicy, rng: Any, policy_state: Any
) -> Evaluation:
    """Episodes of one environment, all at once."""
    play = partial(_episode, env, max_steps, policy, policy_state)
    rngs = key_for_each(rng, n_episodes)
    if env.traceable:
        return jax.vmap(play)(rngs)
    return jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *map(play, rngs))


def _episode(
    env: AnyEnv, max_steps: int, policy: AnyPolicy, policy_state: Any, rng: Any
) -> Evaluation:
    """One episode, decided by its key."""

    def step(position: Rollout) -> tuple[Rollout, Any, dict[str, Any]]:
        rng, action, policy_state, _ = act(env, policy, position, not env.traceable)
        action = conform(env.action_space, action, "policy", "action")
        obs, state, reward, _, info = checked_step(env, position.env_state, action)
        before = {"obs": position.obs, "state": position.env_state}
        require_same_types(env, before, {"obs": obs, "state": state})
        info = with_reasons(info, end_of_step(env, env, state, info))
        return Rollout(obs, state, policy_state, rng), reward, info

    def next_step(carry: tuple[Rollout, Evaluation]) -> tuple[Rollout, Evaluation]:
        position, found = carry
        position, reward, info = take_step(position)
        returns = add_rewards(found.returns, reward)
        ended = position.env_state.done
        return position, Evaluation(returns, found.lengths + 1, ended, info["terminated"], info)

    def goes_on(carry: tuple[Rollout, Evaluation]) -> jax.Array:
        return ~carry[1].complete & (carry[1].lengths < max_steps)

    position = start(env, rng, policy_state)
    none: Any = {}
    take_step: Any = step
    if env.traceable:
        take_step = jax.jit(step)  # traced once, for the types and for the loop
        none = jax.tree.map(jnp.zeros_like, jax.eval_shape(take_step, position)[2])
    else:
        policy = trace_policy(env, policy, position)
    zero = by_agent(env, jnp.float32(0))
    found = Evaluation(zero, jnp.int32(0), jnp.bool_(False), jnp.bool_(False), none)
    return while_loop(env.traceable, goes_on, next_step, (position, found))[1]


# The slots of a batch --------------------------------------------------------------------------


def _begin_with(env: AnyBatch, rng: Any, policy_state: Any) -> Rollout:
    """`start` with the first of the keys, if `rng` is one for each episode."""
    one_rng = clone_keys(rng)
    if jnp.ndim(one_rng) == (1 if is_key(one_rng) else 2):
        one_rng = jax.lax.index_in_dim(one_rng, 0, keepdims=False)
    return start(env, one_rng, policy_state)


def begin_by_key(
    env: AnyBatch,
    n_episodes: int,
    max_steps: int,
    policy: JittedPolicy | UniformPolicy,
    rng: jax.Array,
    policy_state: Any,
) -> Evaluation | None:
    """`by_key` from the start; None for a policy that must be called for all slots at once."""
    position = _begin_with(env, rng, policy_state)
    of_slot = trace_for_slot(env, policy, position) if isinstance(policy, JittedPolicy) else policy
    if of_slot is None:
        return None
    return by_key(env, n_episodes, max_steps, of_slot, rng, position)


def by_key(
    env: AnyBatch,
    n_episodes: int,
    max_steps: int,
    policy: TracedPolicy | UniformPolicy,
    rng: jax.Array,
    position: Rollout,
) -> Evaluation:
    """Episodes that their keys decide: a slot whose episode is over begins the next one by key."""
    each_slot = policy_per_slot(env, policy, position.policy_state)
    keys = jax.vmap(jax.random.split)(key_for_each(rng, n_episodes))
    begin = partial(_begin, env, keys, each_slot)
    step = partial(_step, env, clone_keys(keys)[0, 0], each_slot)
    memory = each_slot.first_memory(keys[jnp.zeros(env.n_slots, jnp.int32), 0])
    layout = layout_of(env)
    # Every slot begins by its key in the first step: nothing of the episodes of `start` counts.
    position = Rollout(
        zeros_like(position.obs),
        _without_slots(env, position.env_state),
        memory if layout is None else reshard(memory, layout),
        position.rng,
    )
    return _play(env, n_episodes, max_steps, begin, step, position)


def _without_slots(env: AnyBatch, state: Any) -> Any:
    """The state with zeros for that of the slots; fields of wrappers around the batch stay."""
    if isinstance(env, BatchedWrapper):
        return state.replace(env_state=_without_slots(env.env, state.env_state))
    return zeros_like(state)


def in_turn(
    env: AnyBatch,
    n_episodes: int,
    max_steps: int,
    policy: AnyPolicy,
    position: Rollout,
    straight: bool = False,
) -> Evaluation:
    """
    Episodes in the order in which they start, in a batch that resets its slots itself.

    It is a loop in Python where its calls go `straight` to the host.
    """
    step = partial(_play_step, env, policy, straight)
    return _play(env, n_episodes, max_steps, None, step, position, straight)


def _play(
    env: AnyBatch,
    n_episodes: int,
    max_steps: int,
    begin: Any,
    step: Any,
    position: Rollout,
    straight: bool = False,
) -> Evaluation:
    """Steps until all episodes are over, each after `begin`, if the slots begin by key."""
    layout = layout_of(env)
    is_by_key = begin is not None

    def goes_on(carry: tuple[Rollout, Tally]) -> jax.Array:
        return must_go_on(carry[1], max_steps, is_by_key)

    def next_step(carry: tuple[Rollout, Tally]) -> tuple[Rollout, Tally]:
        position, tally = carry
        if is_by_key:
            position = begin(position, tally)
        position, results = step(position)
        if straight:
            results = copy_numpy(results)  # which the simulator may write to
        results = results if layout is None else on_every_device(results)
        return position, add_step(tally, *results, max_steps, is_by_key)

    info = None
    if not straight:
        step = jax.jit(step)  # traced once, for the types and for the loop
        info = jax.tree.map(jnp.zeros_like, jax.eval_shape(step, position)[1][2])
    tally = first_tally(env, n_episodes, info)
    return while_loop(not straight, goes_on, next_step, (position, tally))[1].found


def _begin(
    env: Any, keys: jax.Array, policy: PolicyPerSlot, position: Rollout, tally: Tally
) -> Rollout:
    """Begin the episodes of the slots that have a new row."""
    # A slot without an episode plays the last one again, which does not count.
    rows = jnp.minimum(tally.row, keys.shape[0] - 1)
    pairs = clone_keys(keys)[rows]
    given = tally.begins, pairs[:, 1], policy.first_memory(pairs[:, 0])
    layout = layout_of(env)
    begins, of_reset, memory = given if layout is None else reshard(given, layout)
    first, state, began = env._begin_slots(begins, position.env_state, of_reset)
    memory = where_slots(began, memory, position.policy_state)
    # JAX's checker counts a key as used by a select.
    return clone_keys(Rollout(where_slots(began, first, position.obs), state, memory, position.rng))


def _step(
    env: Any, unused_key: jax.Array, policy: PolicyPerSlot, position: Rollout
) -> tuple[Rollout, Any]:
    """One step of every slot, without auto-reset."""
    extra_inputs = extra_inputs_of(env, policy.policy.extra_names, position.env_state)
    action, memory = policy.act(position.policy_state, position.obs, extra_inputs, unused_key)
    obs, state, reward, done, info = step_with(env, position.env_state, action, _OPTIONS)
    end = episode_end(env, (env.n_slots,), done, info)
    return Rollout(obs, state, memory, position.rng), (reward, end, with_reasons(info, end))


def _play_step(
    env: AnyBatch, policy: AnyPolicy, straight: bool, position: Rollout
) -> tuple[Rollout, Any]:
    """One step as `rollout` takes it."""
    position, step = play_step(env, policy, position, straight=straight)
    info = {name: x for name, x in step.info.items() if name != "final_mask"}
    end = End(step.done, step.terminated, step.truncated)
    return position, (step.reward, end, info)


_compiled = {
    function: programs(function, 0, 1) for function in (side_by_side, begin_by_key, by_key, in_turn)
}
