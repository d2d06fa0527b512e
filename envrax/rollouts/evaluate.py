"""`evaluate`: returns and lengths of whole episodes."""

import warnings
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.counts import INT32_MAX, require_count
from envrax._fleet.fleet import Fleet
from envrax._jax.keys import require_key, split_key
from envrax._jax.mesh import on_every_device
from envrax._jax.per_object import program_per_env
from envrax._jax.types import is_inside_jit, is_traced
from envrax.agent_values import add_rewards, by_agent
from envrax.autoreset.checks import require_same_types
from envrax.autoreset.slot import step_slot
from envrax.env import AnyEnv, JaxEnv
from envrax.rollouts import episode_returns, policy_step
from envrax.rollouts.episode_returns import EpisodeTotals
from envrax.rollouts.policy import AnyPolicy, Policies, Policy
from envrax.rollouts.policy_step import AnyBatch, Rollout
from envrax.termination import episode_end


class Evaluation(NamedTuple):
    """
    Result of `evaluate`: one entry for each episode.

    Attributes
    ----------
    returns : jax.Array
        float32, the sum of the rewards; NaN for an episode that did not begin, of which a warning
        tells. A dict by agent in a world of several.
    lengths : jax.Array
        int32, the number of steps.
    complete : jax.Array
        bool, False for an episode that `max_steps` cut short, whose return and length are those so
        far, and for one that did not begin, whose length is 0.
    """

    returns: jax.Array
    lengths: jax.Array
    complete: jax.Array


def evaluate(
    env: AnyEnv | AnyBatch | Fleet,
    policy: Policy | Policies | None,
    rng: jax.Array,
    n_episodes: int,
    *,
    policy_state: Any = None,
    max_steps: int | None = None,
) -> Evaluation:
    """
    Returns and lengths of the first `n_episodes` episodes that start, each played to its end.

    The first ones that *end* would be biased, since short episodes end first.

    Parameters
    ----------
    env : JaxEnv, BatchedEnv, MultiEnv or MultiVecEnv
        The environment. Episodes of a `JaxEnv` run in parallel: episode i is the first one that
        `rollout` plays from `start(env, jax.random.split(rng, n_episodes)[i], policy_state)`. Those
        of a batch are the ones that `rollout` plays from `start(env, rng, policy_state)`, ordered
        by the step in which they start, then by slot. Every member of a fleet plays `n_episodes`,
        member i with `jax.random.split(rng, M)[i]`.
    policy, policy_state
        As for `rollout` and `start`; the extras of the policy are dropped.
    rng : jax.Array
        One PRNG key.
    n_episodes : int
        Number of episodes.
    max_steps : int, optional
        Cut episodes after that many steps. A slot of a batch cannot be reset at a cut: it plays to
        the end of its episode, uncounted. After `max_steps * ceil(n_episodes / n_slots)` steps no
        more episodes begin, so use as many slots as episodes if all have to. Without `max_steps`,
        the call returns only when all episodes have ended.

    Returns
    -------
    Evaluation
        `returns`, `lengths` and `complete`, each of shape `(n_episodes,)`, or for a fleet a list or
        dict of those.

    Raises
    ------
    TypeError, ValueError
        As for `rollout`.

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
        how = dict(n_episodes=n_episodes, max_steps=max_steps)

        def one(member: Any, policy: Any, rng: jax.Array, state: Any) -> Evaluation:
            return evaluate(member, policy, rng, policy_state=state, **how)

        given: Any = dict(policy=policy, rng=rng, policy_state=policy_state)
        return Evaluation(*fleet._map("evaluate", one, **given))
    policy_step.require_env("evaluate", env)
    given = read_policy(env, policy, rng, policy_state), rng, policy_state
    if is_traced(given) or is_inside_jit() or not env.traceable:
        found = evaluated(env, n_episodes, max_steps, *given)
    else:
        found = _compiled_evaluated(env)(n_episodes, max_steps, *given)
    if max_steps < INT32_MAX and not is_traced(found.lengths):
        _warn_of_missing(int(jnp.sum(found.lengths == 0)), n_episodes)
    with jax.debug_nans(False):  # NaN, not 0, which would lower a mean unnoticed
        known = [jnp.where(found.lengths > 0, x, jnp.nan) for x in jax.tree.leaves(found.returns)]
        return found._replace(returns=jax.tree.unflatten(jax.tree.structure(found.returns), known))


def _warn_of_missing(n_missing: int, n_episodes: int) -> None:
    if n_missing:
        warnings.warn(
            f"evaluate: {n_missing} of {n_episodes} episodes did not begin, since `max_steps` cut "
            "others; their returns are NaN. Use as many slots as episodes, or `jnp.nanmean`.",
            stacklevel=3,
        )


def read_policy(
    env: AnyEnv | AnyBatch, policy: Policy | Policies | None, rng: Any, policy_state: Any
) -> AnyPolicy:
    """The policy as it is now, unless `evaluated` reads it later, or the caller's own program."""
    split = policy_step.split_policy(env, policy)
    if not env.traceable or is_traced((rng, policy_state, split.arrays)) or is_inside_jit():
        return split
    return policy_step.read_policy(env, split, _compiled_begin(env).eval_shape(rng, policy_state))


_compiled_begin = program_per_env(policy_step.begin)


def require_counts(who: str, rng: Any, n_episodes: Any, max_steps: Any) -> tuple[int, int]:
    require_key(rng, who, "Pass one key.")
    n_episodes = require_count(f"{who}: expected n_episodes", n_episodes)
    if max_steps is None:
        return n_episodes, INT32_MAX
    return n_episodes, min(require_count(f"{who}: expected max_steps", max_steps), INT32_MAX)


def evaluated(
    env: AnyEnv | AnyBatch,
    n_episodes: int,
    max_steps: int,
    policy: AnyPolicy,
    rng: Any,
    policy_state: Any,
) -> Evaluation:
    if isinstance(env, JaxEnv):
        one = partial(_episode, env, max_steps, policy, policy_state)
        rngs = split_key(rng, n_episodes)
        if env.traceable:
            return jax.vmap(one)(rngs)
        return jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *map(one, rngs))

    def next_step(carry: tuple[Rollout, EpisodeTotals]) -> tuple[Rollout, EpisodeTotals]:
        at, transition = policy_step.step(env, policy, carry[0])
        rewards, done = on_every_device((transition.reward, transition.done))
        episode_end(env.name, (env.n_slots,), done, {})  # raises if `done` is not bool
        return at, episode_returns.add_step(carry[1], rewards, done, max_steps)

    at = policy_step.begin(env, rng, policy_state)
    if not env.traceable:
        policy = policy_step.read_policy(env, policy, at)
    carry = at, episode_returns.first_totals(env, n_episodes)
    _, totals = policy_step.loop(
        env, lambda carry: episode_returns.must_go_on(carry[1], max_steps), next_step, carry
    )
    return Evaluation(totals.returns, totals.lengths, totals.complete)


_compiled_evaluated = program_per_env(evaluated, 0, 1)


def _episode(
    env: AnyEnv, max_steps: int, policy: AnyPolicy, policy_state: Any, rng: Any
) -> Evaluation:
    """One episode of a single environment."""

    def not_ended(carry: tuple[Rollout, Evaluation, Any]) -> jax.Array:
        return ~carry[1].complete & (carry[1].lengths < max_steps)

    def next_step(carry: tuple[Rollout, Evaluation, Any]) -> tuple[Rollout, Evaluation, Any]:
        at, found, low = carry
        rng, action, policy_state, _ = policy_step.act(env, policy, at)
        obs, state, reward, _, _, ended = step_slot(
            env, at.env_state, policy_step.cast_action(env, action)
        )
        before = {"obs": at.obs, "state": at.env_state}
        require_same_types(env, before, {"obs": obs, "state": state})
        returns, low = add_rewards(found.returns, low, reward)
        found = Evaluation(returns, found.lengths + 1, ended)
        return Rollout(obs, state, policy_state, rng), found, low

    at = policy_step.begin(env, rng, policy_state)
    if not env.traceable:
        policy = policy_step.read_policy(env, policy, at)
    zero = by_agent(env, jnp.float32(0))
    none = Evaluation(zero, jnp.int32(0), jnp.bool_(False))
    return policy_step.loop(env, not_ended, next_step, (at, none, zero))[1]
