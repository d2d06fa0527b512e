"""The loops of `evaluate`: over one environment, the slots of a batch, or a rollout."""

from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.keys import clone_keys, key_for_each
from envrax._jax.mesh import on_every_device, reshard, where_slots
from envrax._jax.per_object import PerObject
from envrax.agent_values import add_rewards, by_agent
from envrax.autoreset.checks import require_same_types
from envrax.autoreset.rule import reset_slots
from envrax.autoreset.slot import step_slot
from envrax.batched_env import BatchedEnv
from envrax.compiled_batch import CompiledBatch, layout_of, with_final_obs, without_final
from envrax.env import AnyEnv
from envrax.rollouts import episode_returns, policy_step
from envrax.rollouts.episode_returns import EpisodeTotals
from envrax.rollouts.evaluation import Evaluation
from envrax.rollouts.policy import AnyPolicy
from envrax.rollouts.policy_step import AnyBatch, Rollout
from envrax.rollouts.side_by_side import AllSlots, EachSlot, SideBySide
from envrax.termination import episode_end, step_end


def evaluated(
    env: AnyEnv | AnyBatch,
    n_episodes: int,
    max_steps: int,
    policy: AnyPolicy | SideBySide,
    rng: Any,
    policy_state: Any,
) -> Evaluation:
    if isinstance(policy, EachSlot | AllSlots):
        return _in_slots(cast(Any, env), n_episodes, max_steps, policy, rng, policy_state)
    if isinstance(env, BatchedEnv):
        return _of_rollout(env, n_episodes, max_steps, policy, rng, policy_state)
    one = partial(_episode, env, max_steps, policy, policy_state)
    rngs = key_for_each(rng, n_episodes)
    if env.traceable:
        return jax.vmap(one)(rngs)
    return jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *map(one, rngs))


def _episode(
    env: AnyEnv, max_steps: int, policy: AnyPolicy, policy_state: Any, rng: Any
) -> Evaluation:
    """One episode of a single environment."""

    def step(at: Rollout) -> tuple[Rollout, Any, dict[str, Any], jax.Array]:
        rng, action, policy_state, _ = policy_step.act(env, policy, at)
        stepped = step_slot(env, at.env_state, policy_step.cast_action(env, action))
        obs, state, reward, _, info, ended = stepped
        before = {"obs": at.obs, "state": at.env_state}
        require_same_types(env, before, {"obs": obs, "state": state})
        terminated, truncated = step_end(env.name, env, state, info)
        info = {**info, "terminated": terminated, "truncated": truncated}
        return Rollout(obs, state, policy_state, rng), reward, info, ended

    def not_ended(carry: tuple[Rollout, Evaluation]) -> jax.Array:
        return ~carry[1].complete & (carry[1].lengths < max_steps)

    def next_step(carry: tuple[Rollout, Evaluation]) -> tuple[Rollout, Evaluation]:
        at, found = carry
        at, reward, info, ended = step(at)
        returns = add_rewards(found.returns, reward)
        length = found.lengths + 1
        return at, Evaluation(returns, length, ended, info["terminated"], info)

    at = policy_step.begin(env, rng, policy_state)
    none: Any = {}
    if env.traceable:
        types = jax.eval_shape(step, at)[2]
        none = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), types)
    else:
        policy = policy_step.read_policy(env, policy, at)
    zero = by_agent(env, jnp.float32(0))
    found = Evaluation(zero, jnp.int32(0), jnp.bool_(False), jnp.bool_(False), none)
    return policy_step.loop(env, not_ended, next_step, (at, found))[1]


def _in_slots(
    env: CompiledBatch[Any, Any],
    n_episodes: int,
    max_steps: int,
    policy: SideBySide,
    rng: Any,
    policy_state: Any,
) -> Evaluation:
    """Episodes in the slots of a batch, each decided by its key."""
    batch: Any = _as_played(env) or env
    layout = layout_of(env)
    keys = key_for_each(rng, n_episodes)
    starts = _starts(env, keys)
    if env.n_slots > n_episodes:  # slots without an episode play one that does not count
        others = _starts(env, jax.random.split(keys[-1], env.n_slots - n_episodes))
        starts = jax.tree.map(lambda *x: jnp.concatenate(x), starts, others)

    def rows(which: jax.Array) -> Any:
        """The key of the policy, and the first observation and state, of these episodes."""
        taken = jax.tree.map(lambda x: x[which], clone_keys(starts))
        return taken if layout is None else reshard(taken, layout)

    def step(at: Any) -> tuple[Any, Any]:
        obs, state, memory = at
        asked = policy_step.asked(env, policy.asks, state)
        action, memory = policy(policy_state, memory, obs, asked)
        obs, state, reward, done, info = batch.step(state, action)
        info = without_final(info)
        terminated, truncated = episode_end(env.name, (env.n_slots,), done, info)
        info = {**info, "terminated": terminated, "truncated": truncated}
        return (obs, state, memory), (reward, done, terminated, info)

    def next_step(carry: tuple[Any, EpisodeTotals, Any]) -> tuple[Any, EpisodeTotals, Any]:
        at, totals, row = carry
        (obs, state, memory), results = step(at)
        results = on_every_device(results)
        totals, over = episode_returns.add_step(totals, *results, max_steps, True)
        # A slot that has none left plays its own last one again, which does not count.
        row = jnp.where(totals.episode < n_episodes, totals.episode, row)
        own, start = rows(row)
        over = over if layout is None else reshard(over, layout)
        first, state, begun = batch._begin_slots(over, state, start)
        memory = policy.fresh_where(begun, policy_state, memory, own)
        # JAX's checker counts a key as used by a select.
        return clone_keys((where_slots(begun, first, obs), state, memory)), totals, row

    def goes_on(carry: tuple[Any, EpisodeTotals, Any]) -> jax.Array:
        return episode_returns.must_go_on(carry[1], max_steps)

    policy_state = policy_step.as_arrays(policy_state)
    row = jnp.arange(env.n_slots, dtype=jnp.int32)
    own, start = rows(row)
    obs, state = batch._reset_slots(start)
    memory = policy.first_memory(policy_state, own)
    if layout is not None and isinstance(policy, EachSlot):
        memory = reshard(memory, layout)
    at = obs, state, memory
    info = jax.eval_shape(step, at)[1][3]
    totals = episode_returns.first_totals(env, n_episodes, info)
    return _found(policy_step.loop(env, goes_on, next_step, (at, totals, row))[1])


def _starts(env: CompiledBatch[Any, Any], keys: jax.Array) -> Any:
    """For each key that of the policy, and the first observation and state, as `start` has them."""
    pairs = jax.vmap(jax.random.split)(keys)
    return pairs[:, 0], reset_slots(cast(Any, env.copied_env), pairs[:, 1])


def _without_resets(batch: Any) -> Any:
    rebuilt = with_final_obs(batch().without_autoreset())
    return None if rebuilt is batch() else rebuilt


_as_played = PerObject(_without_resets)  # once for all evaluations of a batch


def _of_rollout(
    env: AnyBatch, n_episodes: int, max_steps: int, policy: AnyPolicy, rng: Any, policy_state: Any
) -> Evaluation:
    """The first episodes that start in a rollout of a batch."""

    def step(at: Rollout) -> tuple[Rollout, Any]:
        at, transition = policy_step.step(env, policy, at)
        info = without_final(transition.info)
        reward, done, info = on_every_device((transition.reward, transition.done, info))
        terminated, truncated = episode_end(env.name, (env.n_slots,), done, info)
        info = {**info, "terminated": terminated, "truncated": truncated}
        return at, (reward, done, terminated, info)

    def next_step(carry: tuple[Rollout, EpisodeTotals]) -> tuple[Rollout, EpisodeTotals]:
        at, results = step(carry[0])
        return at, episode_returns.add_step(carry[1], *results, max_steps, False)[0]

    at = policy_step.begin(env, rng, policy_state)
    if env.traceable:
        info = jax.eval_shape(step, at)[1][3]
        carry = at, episode_returns.first_totals(env, n_episodes, info)
    else:
        policy = policy_step.read_policy(env, policy, at)
        at, results = step(at)
        totals = episode_returns.first_totals(env, n_episodes, results[3])
        carry = at, episode_returns.add_step(totals, *results, max_steps, False)[0]
    _, totals = policy_step.loop(
        env, lambda carry: episode_returns.must_go_on(carry[1], max_steps), next_step, carry
    )
    return _found(totals)


def _found(totals: EpisodeTotals) -> Evaluation:
    of_episodes = totals.returns, totals.lengths, totals.complete, totals.terminated, totals.info
    return Evaluation(*of_episodes)
