"""`evaluate`: returns and lengths of whole episodes."""

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from envrax._checks.counts import INT32_MAX, require_count
from envrax._fleet.fleet import Fleet
from envrax._jax.keys import clone_keys, key_for_each, require_key, require_keys
from envrax._jax.loops import while_loop
from envrax._jax.mesh import on_every_device, reshard, where_slots
from envrax._jax.programs import programs
from envrax._jax.types import is_traced, with_shardings
from envrax.agent_values import add_rewards, by_agent
from envrax.autoreset.checks import require_same_types
from envrax.autoreset.slot import step_slot
from envrax.batched_env import AnyBatch, StepOptions, step_with
from envrax.compiled_batch import CompiledBatch, layout_of
from envrax.env import AnyEnv, JaxEnv
from envrax.rollouts.policy import (
    AnyPolicy,
    Policies,
    Policy,
    UniformPolicy,
    as_is_now,
    call_policy,
    called_policy,
    input_types,
    on_devices_of,
    require_env,
    what_is_asked,
)
from envrax.rollouts.rollout import Rollout, act, play_step, start
from envrax.spaces import Space
from envrax.spaces.conform import conform
from envrax.termination import End, end_of_step, episode_end, with_reasons

_OPTIONS = StepOptions(autoreset=False, reasons=True)
_ONE_OR_EACH = "Pass one key, or one for each episode."


class Evaluation(NamedTuple):
    """
    Result of `evaluate`: one entry for each episode. `str` gives a summary.

    Attributes
    ----------
    returns : jax.Array
        float32, the sum of the rewards. A dict by agent in a world of several.
    lengths : jax.Array
        int32, the number of steps.
    complete : jax.Array
        bool, False for an episode that `max_steps` cut, whose return and length are those so far.
    terminated : jax.Array
        bool, whether the episode ended by termination, not by truncation or a cut.
    info : dict
        The info of the last step of each episode, such as `info["success"]`.
    """

    returns: jax.Array
    lengths: jax.Array
    complete: jax.Array
    terminated: jax.Array
    info: dict[str, Any]

    def __str__(self) -> str:
        if is_traced(self):
            return repr(self)
        if isinstance(self.complete, list | dict):  # of a fleet
            complete: Any = self.complete
            names: list[Any] = [*(complete if hasattr(complete, "keys") else range(len(complete)))]
            members = {str(k): Evaluation(*(cast(Any, x)[k] for x in self)) for k in names}
            return "\n".join(f"{name}:\n{member}" for name, member in members.items())
        complete = np.asarray(self.complete)
        agents: Any = self.returns if isinstance(self.returns, dict) else {"": self.returns}
        lines = [f"return {agent} {_mean(x)}".replace("  ", " ") for agent, x in agents.items()]
        lines.append(f"length {_mean(self.lengths)}")
        lines.append(f"{complete.size} episodes, {int(np.sum(~complete))} of them cut")
        return "\n".join(lines)


def _mean(x: Any) -> str:
    """The mean, and its standard error."""
    x = np.asarray(x, np.float64)
    error = x.std(ddof=1) / np.sqrt(x.size) if x.size > 1 else np.nan
    return f"{x.mean():.4g} +- {error:.2g}"


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
        slots at once: see the notes. A policy whose actions always have a row for each slot is
        played so in any case.

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
    n_episodes, max_steps = require_counts("evaluate", rng, n_episodes, max_steps)
    if isinstance(env, Fleet):
        fleet = cast(Any, env)
        require_key(rng, "evaluate", "Pass one key; the fleet splits it.")
        how: Any = dict(n_episodes=n_episodes, max_steps=max_steps, as_rollout=as_rollout)

        def one(member: Any, policy: Any, rng: jax.Array, state: Any) -> Evaluation:
            return evaluate(member, policy, rng, policy_state=state, **how)

        given: Any = dict(policy=policy, rng=rng, policy_state=policy_state)
        return Evaluation(*fleet._map("evaluate", one, **given))
    require_env("evaluate", env)
    for function in getattr(env, "_before_calls", ()):
        function()
    played = called_policy(env, cast(Any, policy))
    if isinstance(env, JaxEnv):
        played = read_for_one(env, played, rng, policy_state)
        return _run(side_by_side, env, n_episodes, max_steps, played, rng, policy_state)
    # By key, the first step replaces these episodes: only types and fields of wrappers are used.
    is_one_key = require_keys(rng, "evaluate", _ONE_OR_EACH) is None
    at = start(env, clone_keys(rng if is_one_key else rng[0]), policy_state)
    if not as_rollout and getattr(env, "copied_env", None) is not None:
        each_slot = _for_each_slot(cast(Any, env), played, at, rng)
        if each_slot is not None:
            return _run(in_slots, env, n_episodes, max_steps, on_devices_of(env, each_slot), at)
    if not is_one_key:
        require_key(rng, "evaluate", "Pass one key: these slots take none for each episode.")
    if not (env.traceable and is_traced((at, played.arrays))):
        played = as_is_now(env, played, at)
    return _without_missing(_run(in_slots, env, n_episodes, max_steps, played, at), n_episodes)


def require_counts(who: str, rng: Any, n_episodes: Any, max_steps: Any) -> tuple[int, int]:
    n_keys = require_keys(rng, who, _ONE_OR_EACH)
    if n_keys is None:
        n_episodes = require_count(f"{who}: expected n_episodes", n_episodes)
    elif n_episodes in (None, n_keys):
        n_episodes = require_count(f"{who}: expected the number of keys", n_keys)
    else:
        raise ValueError(f"{who}: expected a key for each of {n_episodes} episodes; got {n_keys}.")
    if max_steps is None:
        return n_episodes, INT32_MAX
    return n_episodes, min(require_count(f"{who}: expected max_steps", max_steps), INT32_MAX)


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
    return as_is_now(env, policy, _types_at_start(env).eval_shape(one_rng, policy_state))


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

    def step(at: Rollout) -> tuple[Rollout, Any, dict[str, Any]]:
        rng, action, policy_state, _ = act(env, policy, at)
        action = conform(env.action_space, action, "policy", "action")
        obs, state, reward, _, info = step_slot(env, at.env_state, action)
        before = {"obs": at.obs, "state": at.env_state}
        require_same_types(env, before, {"obs": obs, "state": state})
        info = with_reasons(info, end_of_step(env.name, env, state, info))
        return Rollout(obs, state, policy_state, rng), reward, info

    def next_step(carry: tuple[Rollout, Evaluation]) -> tuple[Rollout, Evaluation]:
        at, found = carry
        at, reward, info = take_step(at)
        returns = add_rewards(found.returns, reward)
        ended = at.env_state.done
        return at, Evaluation(returns, found.lengths + 1, ended, info["terminated"], info)

    def goes_on(carry: tuple[Rollout, Evaluation]) -> jax.Array:
        return ~carry[1].complete & (carry[1].lengths < max_steps)

    at = start(env, rng, policy_state)
    none: Any = {}
    take_step: Any = step
    if env.traceable:
        take_step = jax.jit(step)  # traced once, for the types and for the loop
        none = _zeros(jax.eval_shape(take_step, at)[2])
    else:
        policy = as_is_now(env, policy, at)
    zero = by_agent(env, jnp.float32(0))
    found = Evaluation(zero, jnp.int32(0), jnp.bool_(False), jnp.bool_(False), none)
    return while_loop(env.traceable, goes_on, next_step, (at, found))[1]


# The slots of a batch --------------------------------------------------------------------------


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["policy", "rng", "policy_state"],
    meta_fields=["draws", "changes", "action_space"],
)
@dataclass
class EachSlot:
    """
    A policy that is called for every slot on its own, in episodes that their keys decide.

    Attributes
    ----------
    policy : TracedPolicy or UniformPolicy
        The policy of a batch of one slot.
    rng : jax.Array
        The key of all episodes, or one for each.
    policy_state : pytree
        The state of the policy at the beginning of each episode.
    draws : bool
        Whether the policy uses its key.
    changes : tuple of bool
        Whether it may change each leaf of its state. Only those are kept for each slot.
    action_space : Space
        The actions of a batch of one slot.
    """

    policy: Any
    rng: jax.Array
    policy_state: Any
    draws: bool
    changes: tuple[bool, ...]
    action_space: Space

    def first_memory(self, rngs: jax.Array) -> Any:
        """What is kept for each slot at the beginning of an episode, with these keys."""
        rows = self._changing(self.policy_state)
        rows = [jnp.broadcast_to(x, (rngs.shape[0], *x.shape)) for x in rows]
        return rngs if self.draws else None, rows

    def act(self, memory: Any, obs: Any, asked: Any, unused_key: jax.Array) -> tuple[Any, Any]:
        """The actions of all slots, and what is kept for each."""
        leaves, structure = cast(Any, jax.tree.flatten(self.policy_state))
        has_batch_axis = not isinstance(self.policy, UniformPolicy)

        def one(memory: Any, obs: Any, asked: Any) -> tuple[Any, Any]:
            rng, kept = memory
            rows = iter(kept)
            pairs = zip(leaves, self.changes, strict=True)
            state: Any = structure.unflatten([next(rows) if new else x for x, new in pairs])
            if has_batch_axis:
                obs, asked = jax.tree.map(lambda x: x[None], (obs, asked))
            if self.draws:
                rng, action, state, _ = call_policy(self.policy, state, obs, rng, asked)
            else:
                action, state, _ = self.policy(state, obs, unused_key, asked)
            if has_batch_axis:
                action = conform(self.action_space, action, "policy", "action")
                action = jax.tree.map(lambda x: x[0], action)
            return action, (rng, self._changing(state))

        return jax.vmap(one)(memory, obs, asked)

    def _changing(self, policy_state: Any) -> list[Any]:
        pairs = zip(jax.tree.leaves(policy_state), self.changes, strict=True)
        return [x for x, changes in pairs if changes]


def _for_each_slot(
    env: CompiledBatch[Any, Any], policy: Any, at: Rollout, rng: jax.Array
) -> EachSlot | None:
    """The policy as it is now; None if its actions have a row for each slot even for one."""
    space = env.single_action_space
    leaves = jax.tree.leaves(at.policy_state)
    if isinstance(policy, UniformPolicy):
        never = (False,) * len(leaves)
        return EachSlot(UniformPolicy(space), rng, at.policy_state, True, never, space)
    inputs = input_types(env, policy.asks, at)
    state, obs, key, asked = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), inputs)
    given = state, *jax.tree.map(_one_row, (obs,)), key, jax.tree.map(_one_row, asked)
    if layout := layout_of(env):
        whole = NamedSharding(layout.mesh, PartitionSpec())
        given = jax.tree.map(lambda x: with_shardings(x, whole), given)
    try:
        found = policy.traced(*given)
        action = found.traced.outputs[0]
        if {x.shape[:1] for x in jax.tree.leaves(action)} == {(env.n_slots,)} != {(1,)}:
            return None
        jax.eval_shape(lambda x: conform(space.batch(1), x, "policy", "action"), action)
    except Exception as error:
        error.add_note(
            "evaluate calls a policy for every slot on its own: an observation has shape (1, ...). "
            "For a policy that must be called for all slots at once, pass `as_rollout=True`."
        )
        raise
    sources = jax.tree.leaves(found.traced.copies()[1])
    changes = tuple(source != i for i, source in enumerate(sources))
    draws = found.traced.reads()[len(leaves) + len(jax.tree.leaves(obs))]
    return EachSlot(found, rng, at.policy_state, draws, changes, space.batch(1))


def _one_row(x: Any) -> Any:
    return jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype)


def in_slots(
    env: AnyBatch, n_episodes: int, max_steps: int, policy: AnyPolicy | EachSlot, at: Rollout
) -> Evaluation:
    """
    Episodes in the slots of a batch.

    With an `EachSlot`, a slot whose episode is over begins the next one by its key. Else the batch
    resets its slots itself, and the episodes count in the order in which they start.
    """
    by_key = isinstance(policy, EachSlot)
    layout = layout_of(env)
    begin: Any = None
    step: Any
    if isinstance(policy, EachSlot):
        keys = jax.vmap(jax.random.split)(key_for_each(policy.rng, n_episodes))
        begin = partial(_begin, env, keys, policy)
        step = partial(_step, env, clone_keys(keys)[0, 0], policy)
        memory = policy.first_memory(keys[jnp.zeros(env.n_slots, jnp.int32), 0])
        at = at._replace(policy_state=memory if layout is None else reshard(memory, layout))
    else:
        step = partial(_play_step, env, policy)

    def goes_on(carry: tuple[Rollout, Tally]) -> jax.Array:
        return must_go_on(carry[1], max_steps, by_key)

    def next_step(carry: tuple[Rollout, Tally]) -> tuple[Rollout, Tally]:
        at, tally = carry
        if by_key:
            at = begin(at, tally)
        at, results = step(at)
        results = results if layout is None else on_every_device(results)
        return at, add_step(tally, *results, max_steps, by_key)

    info = None
    if env.traceable:
        step = jax.jit(step)  # traced once, for the types and for the loop
        info = _zeros(jax.eval_shape(step, at)[1][2])
    tally = _first_tally(env, n_episodes, info)
    return while_loop(env.traceable, goes_on, next_step, (at, tally))[1].found


def _begin(env: Any, keys: jax.Array, policy: EachSlot, at: Rollout, tally: "Tally") -> Rollout:
    """Begin the episodes of the slots that have a new row."""
    # A slot without an episode plays the last one again, which does not count.
    rows = jnp.minimum(tally.row, keys.shape[0] - 1)
    pairs = clone_keys(keys)[rows]
    begins, own, of_reset = tally.begins, pairs[:, 0], pairs[:, 1]
    layout = layout_of(env)
    if layout is not None:
        begins, own, of_reset = reshard((begins, own, of_reset), layout)
    first, state, began = env._begin_slots(begins, at.env_state, of_reset)
    memory = where_slots(began, policy.first_memory(own), at.policy_state)
    # JAX's checker counts a key as used by a select.
    return clone_keys(Rollout(where_slots(began, first, at.obs), state, memory, at.rng))


def _step(env: Any, unused_key: jax.Array, policy: EachSlot, at: Rollout) -> tuple[Rollout, Any]:
    """One step of every slot, without auto-reset."""
    asked = what_is_asked(env, policy.policy.asks, at.env_state)
    action, memory = policy.act(at.policy_state, at.obs, asked, unused_key)
    obs, state, reward, done, info = step_with(env, at.env_state, action, _OPTIONS)
    end = episode_end(env.name, (env.n_slots,), done, info)
    return Rollout(obs, state, memory, at.rng), (reward, end, with_reasons(info, end))


def _play_step(env: AnyBatch, policy: AnyPolicy, at: Rollout) -> tuple[Rollout, Any]:
    """One step as `rollout` takes it."""
    at, step = play_step(env, policy, at)
    info = {name: x for name, x in step.info.items() if name != "final_mask"}
    end = End(step.done, step.terminated, step.truncated)
    return at, (step.reward, end, info)


class Tally(NamedTuple):
    """
    What the slots play, and the results so far.

    Attributes
    ----------
    steps : jax.Array
        int32, the number of steps.
    row : jax.Array
        int32[n_slots], the number of the episode that each slot plays; `n_episodes` for none.
    begins : jax.Array
        bool[n_slots], whether that episode begins now.
    n_begun : jax.Array
        int32, how many episodes have begun.
    returns : jax.Array
        float32[n_slots], the return of the episode so far. A dict by agent in a world of several.
    length : jax.Array
        int32[n_slots], the number of its steps.
    found : Evaluation
        The results; 0 and False for an episode that has not ended.
    """

    steps: jax.Array
    row: jax.Array
    begins: jax.Array
    n_begun: jax.Array
    returns: Any
    length: jax.Array
    found: Evaluation


def _first_tally(env: AnyBatch, n_episodes: int, info: Any) -> Tally:
    """The tally before the first step; `info` has the zeros of the infos of all slots, if known."""
    n_slots = env.n_slots
    flags = jnp.zeros(n_episodes, jnp.bool_)
    returns = by_agent(env, jnp.zeros(n_slots, jnp.float32))
    of_episodes = jax.tree.map(lambda _: jnp.zeros(n_episodes, jnp.float32), returns)
    lengths = jnp.zeros(n_episodes, jnp.int32)
    return Tally(
        steps=jnp.int32(0),
        row=jnp.minimum(jnp.arange(n_slots, dtype=jnp.int32), n_episodes),
        begins=jnp.ones(n_slots, jnp.bool_),
        n_begun=jnp.int32(min(n_slots, n_episodes)),
        returns=returns,
        length=jnp.zeros(n_slots, jnp.int32),
        found=Evaluation(of_episodes, lengths, flags, flags, _of_episodes(n_episodes, info)),
    )


def _of_episodes(n_episodes: int, info: Any) -> Any:
    return jax.tree.map(lambda x: jnp.zeros((n_episodes, *x.shape[1:]), x.dtype), info)


def _with_step(
    tally: Tally, rewards: Any, end: End, info: Any, max_steps: int, by_key: bool
) -> Tally:
    """The tally after one more step, with the rows of the episodes that begin next."""
    found = tally.found
    n_episodes = found.lengths.size
    returns = add_rewards(tally.returns, rewards)
    length = tally.length + 1
    steps = tally.steps + 1
    over = end.done | (length >= max_steps)
    # Episodes beyond the requested ones share a number, which is dropped.
    which = jnp.where(over, tally.row, n_episodes)

    def write(of_episodes: jax.Array, of_slots: jax.Array) -> jax.Array:
        return of_episodes.at[which].set(of_slots, mode="drop")

    def clear(x: jax.Array) -> jax.Array:
        return jnp.where(over, jnp.zeros_like(x), x)

    known: Any = found.info
    known = _of_episodes(n_episodes, info) if known is None else known
    found = Evaluation(
        returns=jax.tree.map(write, found.returns, returns),
        lengths=write(found.lengths, length),
        complete=write(found.complete, end.done),
        terminated=write(found.terminated, end.terminated),
        info=jax.tree.map(write, known, info),
    )
    # A slot that cannot begin an episode at a cut waits for the end of the one that it plays.
    begins = over if by_key else end.done & (steps < _last_begin(tally, max_steps))
    next_row = tally.n_begun + jnp.cumsum(begins, dtype=jnp.int32) - 1
    waiting = jnp.where(over, n_episodes, tally.row)
    return Tally(
        steps=steps,
        row=jnp.where(begins, jnp.minimum(next_row, n_episodes), waiting),
        begins=begins,
        n_begun=jnp.minimum(tally.n_begun + jnp.sum(begins, dtype=jnp.int32), n_episodes),
        returns=jax.tree.map(clear, returns),
        length=clear(length),
        found=found,
    )


def _goes_on(tally: Tally, max_steps: int, by_key: bool) -> jax.Array:
    """Whether a requested episode is running, or will begin."""
    n_episodes = tally.found.lengths.size
    running = jnp.any(tally.row < n_episodes)
    if by_key:
        return running
    begins = (tally.n_begun < n_episodes) & (tally.steps < _last_begin(tally, max_steps))
    return running | begins


add_step: Any = jax.jit(_with_step, static_argnums=(4, 5))
must_go_on: Any = jax.jit(_goes_on, static_argnums=(1, 2))


def _last_begin(tally: Tally, max_steps: int) -> int:
    """The number of steps after which a batch begins no more episodes that count."""
    n_rounds = -(-tally.found.lengths.size // tally.row.size)
    return min(max_steps * n_rounds, INT32_MAX)


def _without_missing(found: Evaluation, n_episodes: int) -> Evaluation:
    """The same with a NaN for each episode that did not begin: a 0 would lower the mean."""
    if not is_traced(found.lengths):
        n_missing = int(np.sum(np.asarray(found.lengths) == 0))
        if not n_missing:
            return found
        warnings.warn(
            f"evaluate: {n_missing} of {n_episodes} episodes did not begin, since `max_steps` cut "
            "others; their returns are NaN. Use as many slots as episodes, or `jnp.nanmean`.",
            stacklevel=3,
        )
    with jax.debug_nans(False):
        known = jax.tree.map(lambda x: jnp.where(found.lengths > 0, x, jnp.nan), found.returns)
    return found._replace(returns=known)


def _zeros(types: Any) -> Any:
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), types)


_compiled = {function: programs(function, 0, 1) for function in (side_by_side, in_slots)}
