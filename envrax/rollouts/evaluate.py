"""`evaluate`: returns and lengths of whole episodes."""

from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.counts import NO_LIMIT, require_count
from envrax._fleet.fleet import Fleet
from envrax._jax.copies import copy_numpy
from envrax._jax.keys import clone_keys, key_for_each, require_key, require_keys
from envrax._jax.mesh import on_every_device, reshard, where_slots, while_loop
from envrax._jax.programs import programs
from envrax._jax.types import is_traced
from envrax.agent_values import add_rewards, by_agent
from envrax.autoreset.slot import checked_step, require_same_types
from envrax.batched_env import AnyBatch, StepOptions, goes_straight, step_with
from envrax.compiled_batch import layout_of
from envrax.env import AnyEnv, JaxEnv
from envrax.rollouts.policy import (
    AnyPolicy,
    Policies,
    Policy,
    PolicyPerSlot,
    extra_inputs_of,
    on_devices_of,
    plain_policy,
    policy_per_slot,
    require_env,
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
from envrax.rollouts.rollout import Rollout, act, play_step, start
from envrax.spaces.conform import conform
from envrax.termination import End, end_of_step, episode_end, with_reasons

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
    played = plain_policy(env, cast(Any, policy))
    if isinstance(env, JaxEnv):
        played = read_for_one(env, played, rng, policy_state)
        return _run(side_by_side, env, n_episodes, max_steps, played, rng, policy_state)
    # By key, the first step replaces these episodes: only types and fields of wrappers are used.
    first = clone_keys(rng)
    if n_keys is not None:
        first = jax.lax.index_in_dim(first, 0, keepdims=False)
    position = start(env, first, policy_state)
    if not as_rollout and getattr(env, "copied_env", None) is not None:
        each_slot = policy_per_slot(cast(Any, env), played, position, rng)
        if each_slot is not None:
            return _run(
                in_slots, env, n_episodes, max_steps, on_devices_of(env, each_slot), position
            )
    if n_keys is not None:
        require_key(rng, "evaluate", "Pass one key: these slots take none for each episode.")
    straight = goes_straight(env, (position, played.arrays))
    if straight or not is_traced((position, played.arrays)):
        played = trace_policy(env, played, position)
    play = partial(in_slots, straight=True) if straight else partial(_run, in_slots)
    return without_missing(play(env, n_episodes, max_steps, played, position), n_episodes)


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


def _run(function: Any, env: AnyEnv | AnyBatch, n: int, max_steps: int, *given: Any) -> Evaluation:
    """`function`, as a compiled program unless it runs on the host or within one."""
    if not env.traceable or is_traced(given):
        return function(env, n, max_steps, *given)
    return _compiled[function](env)(n, max_steps, *given)


# One environment -------------------------------------------------------------------------------


def read_for_one(env: AnyEnv, policy: AnyPolicy, rng: Any, policy_state: Any) -> AnyPolicy:
    """The policy of one environment as it is now, unless the caller's own program calls it."""
    if not env.traceable or is_traced((rng, policy_state, getattr(policy, "arrays", ()))):
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


def in_slots(
    env: AnyBatch,
    n_episodes: int,
    max_steps: int,
    policy: AnyPolicy | PolicyPerSlot,
    position: Rollout,
    straight: bool = False,
) -> Evaluation:
    """
    Episodes in the slots of a batch.

    With a `PolicyPerSlot`, a slot whose episode is over begins the next one by its key. Else the
    batch resets its slots itself, and the episodes count in the order in which they start. It is a
    loop in Python where its calls go `straight` to the host.
    """
    by_key = isinstance(policy, PolicyPerSlot)
    layout = layout_of(env)
    begin: Any = None
    step: Any
    if isinstance(policy, PolicyPerSlot):
        keys = jax.vmap(jax.random.split)(key_for_each(policy.rng, n_episodes))
        begin = partial(_begin, env, keys, policy)
        step = partial(_step, env, clone_keys(keys)[0, 0], policy)
        memory = policy.first_memory(keys[jnp.zeros(env.n_slots, jnp.int32), 0])
        position = position._replace(
            policy_state=memory if layout is None else reshard(memory, layout)
        )
    else:
        step = partial(_play_step, env, policy, straight)

    def goes_on(carry: tuple[Rollout, Tally]) -> jax.Array:
        return must_go_on(carry[1], max_steps, by_key)

    def next_step(carry: tuple[Rollout, Tally]) -> tuple[Rollout, Tally]:
        position, tally = carry
        if by_key:
            position = begin(position, tally)
        position, results = step(position)
        if straight:
            results = copy_numpy(results)  # which the simulator may write to
        results = results if layout is None else on_every_device(results)
        return position, add_step(tally, *results, max_steps, by_key)

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


_compiled = {function: programs(function, 0, 1) for function in (side_by_side, in_slots)}
