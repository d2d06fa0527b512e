"""`evaluate`: returns and lengths of whole episodes."""

import warnings
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.counts import INT32_MAX, require_count
from envrax._fleet.fleet import Fleet
from envrax._jax.keys import key_for_each, require_key, require_keys
from envrax._jax.per_object import cached_program_per_env, program_per_env
from envrax._jax.types import is_inside_jit, is_traced
from envrax.batched_env import BatchedEnv
from envrax.env import AnyEnv, JaxEnv
from envrax.rollouts import policy_step
from envrax.rollouts.episode_loops import evaluated
from envrax.rollouts.evaluation import Evaluation
from envrax.rollouts.policy import AnyPolicy, Policies, Policy
from envrax.rollouts.policy_step import AnyBatch
from envrax.rollouts.side_by_side import SideBySide


def evaluate(
    env: AnyEnv | AnyBatch | Fleet,
    policy: Policy | Policies | None,
    rng: jax.Array,
    n_episodes: int | None = None,
    *,
    policy_state: Any = None,
    max_steps: int | None = None,
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
        own, as for a batch of one slot. A policy that fails so, such as one for a fixed number of
        slots, is called as `rollout` calls it: then its draws depend on the number of slots.
    rng : jax.Array
        One PRNG key; or a key for each episode, to play the same episodes again.
    n_episodes : int, optional
        Number of episodes; not needed with a key for each.
    policy_state : pytree, optional
        State of the policy at the beginning of each episode. For a batch, that of a batch of one
        slot; for a policy that is called for all slots, that of all.
    max_steps : int, optional
        Cut episodes after that many steps. Without it, the call returns only when all episodes have
        ended.

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
    A batch that cannot begin an episode of a slot by a key plays the episodes of `rollout` from
    `start(env, rng, policy_state)`: a simulator on the host, `agents_as_slots`, `RecordVideo`,
    running statistics that are not frozen, a batch of your own, or a wrapper of your own that
    overrides `reset` or `step`. Its results depend on the number of slots. The episodes that start
    first count, in order of their slots; the first that end would be biased, since short ones end
    first. The policy is called for all slots. Such a slot cannot be reset at a cut: it plays to the
    end of its episode, uncounted. After `max_steps * ceil(n_episodes / n_slots)` steps no more
    episodes begin; the returns of those are NaN, with a warning. Use as many slots as episodes.

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
        how = dict(n_episodes=n_episodes, max_steps=max_steps)

        def one(member: Any, policy: Any, rng: jax.Array, state: Any) -> Evaluation:
            return evaluate(member, policy, rng, policy_state=state, **how)

        given: Any = dict(policy=policy, rng=rng, policy_state=policy_state)
        return Evaluation(*fleet._map("evaluate", one, **given))
    policy_step.require_env("evaluate", env)
    by_key = plays_by_key(env)
    if not by_key:
        require_key(rng, "evaluate", f"Pass one key: {env!r} takes none for each episode.")
    side_by_side = by_key and isinstance(env, BatchedEnv)
    given = read_policy(env, policy, rng, policy_state, side_by_side), rng, policy_state
    if is_traced(given) or is_inside_jit() or not env.traceable:
        found = evaluated(env, n_episodes, max_steps, *given)
    else:
        found = _compiled_evaluated(env)(n_episodes, max_steps, *given)
    return found if by_key else _without_missing(found, n_episodes)


_compiled_evaluated = cached_program_per_env(evaluated, 0, 1)


def plays_by_key(env: AnyEnv | AnyBatch) -> bool:
    """Whether the key of an episode decides all of it."""
    return isinstance(env, JaxEnv) or getattr(env, "copied_env", None) is not None


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


def read_policy(
    env: AnyEnv | AnyBatch,
    policy: Policy | Policies | None,
    rng: Any,
    policy_state: Any,
    side_by_side: bool = False,
) -> AnyPolicy | SideBySide:
    """The policy as it is now, unless `evaluated` reads it later, or the caller's own program."""
    split = policy_step.split_policy(env, policy)
    traced = is_traced((rng, policy_state, split.arrays)) or is_inside_jit()
    if not env.traceable or (traced and not side_by_side):
        return split
    one_rng = jax.eval_shape(lambda: key_for_each(rng, 1)[0])
    at = _compiled_begin(env).eval_shape(one_rng, policy_state)
    return policy_step.read_policy(env, split, at, side_by_side)


_compiled_begin = program_per_env(policy_step.begin)


def require_counts(who: str, rng: Any, n_episodes: Any, max_steps: Any) -> tuple[int, int]:
    n_keys = require_keys(rng, who, "Pass one key, or one for each episode.")
    if n_keys is None:
        n_episodes = require_count(f"{who}: expected n_episodes", n_episodes)
    elif n_episodes in (None, n_keys):
        n_episodes = require_count(f"{who}: expected the number of keys", n_keys)
    else:
        raise ValueError(f"{who}: expected a key for each of {n_episodes} episodes; got {n_keys}.")
    if max_steps is None:
        return n_episodes, INT32_MAX
    return n_episodes, min(require_count(f"{who}: expected max_steps", max_steps), INT32_MAX)
