"""Returns and lengths of the first episodes that start in a batch, for `evaluate`."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from envrax._checks.counts import INT32_MAX
from envrax.agent_values import add_rewards, by_agent
from envrax.batched_env import BatchedEnv


class EpisodeTotals(NamedTuple):
    """
    Results of the episodes that ended, and what the slots play.

    Attributes
    ----------
    steps : jax.Array
        int32, the number of steps.
    episode : jax.Array
        int32[n_slots], the number of the episode that each slot plays; `n_episodes` for none.
    begun : jax.Array
        int32, how many episodes have begun.
    played : jax.Array
        float32[n_slots], the return of the episode that each slot plays.
    length : jax.Array
        int32[n_slots], the number of its steps.
    returns, lengths, complete, terminated, info
        As in `Evaluation`; 0 and False for an episode that has not ended.
    """

    steps: jax.Array
    episode: jax.Array
    begun: jax.Array
    played: Any
    length: jax.Array
    returns: Any
    lengths: jax.Array
    complete: jax.Array
    terminated: jax.Array
    info: Any


def first_totals(env: BatchedEnv[Any, Any], n_episodes: int, info: Any) -> EpisodeTotals:
    """The totals before the first step; `info` has the types of the infos of all slots."""
    of = partial(jnp.zeros, n_episodes)
    none = by_agent(env, jnp.zeros(env.n_slots, jnp.float32))
    slots = jnp.arange(env.n_slots, dtype=jnp.int32)
    return EpisodeTotals(
        steps=jnp.int32(0),
        episode=jnp.minimum(slots, n_episodes),
        begun=jnp.int32(min(env.n_slots, n_episodes)),
        played=none,
        length=jnp.zeros(env.n_slots, jnp.int32),
        returns=by_agent(env, of(jnp.float32)),
        lengths=of(jnp.int32),
        complete=of(bool),
        terminated=of(bool),
        info=jax.tree.map(lambda x: jnp.zeros((n_episodes, *x.shape[1:]), x.dtype), info),
    )


def _add_step(
    totals: EpisodeTotals,
    rewards: Any,
    done: jax.Array,
    terminated: jax.Array,
    info: Any,
    max_steps: int,
    begins_at_cut: bool,
) -> tuple[EpisodeTotals, jax.Array]:
    """The totals after one more step, and which slots' episodes are over: ended or cut."""
    n_episodes = totals.lengths.size
    played = add_rewards(totals.played, rewards)
    length = totals.length + 1
    over = done | (length >= max_steps)
    # Episodes beyond the requested ones share a number, which is dropped.
    which = jnp.where(over, totals.episode, n_episodes)

    def write(of_episodes: jax.Array, of_slots: jax.Array) -> jax.Array:
        return of_episodes.at[which].set(of_slots, mode="drop")

    def clear(x: jax.Array) -> jax.Array:
        return jnp.where(over, jnp.zeros_like(x), x)

    # A slot that cannot begin an episode at a cut waits for the end of the one that it plays.
    begins = over if begins_at_cut else done
    may_begin = begins & (totals.steps + 1 < _last(totals, max_steps, begins_at_cut))
    next_episode = totals.begun + jnp.cumsum(may_begin, dtype=jnp.int32) - 1
    waiting = jnp.where(over, n_episodes, totals.episode)
    episode = jnp.where(may_begin, jnp.minimum(next_episode, n_episodes), waiting)
    begun = totals.begun + jnp.sum(may_begin, dtype=jnp.int32)
    totals = EpisodeTotals(
        steps=totals.steps + 1,
        episode=episode,
        begun=jnp.minimum(begun, n_episodes),
        played=jax.tree.map(clear, played),
        length=clear(length),
        returns=jax.tree.map(write, totals.returns, played),
        lengths=write(totals.lengths, length),
        complete=write(totals.complete, done),
        terminated=write(totals.terminated, terminated),
        info=jax.tree.map(write, totals.info, info),
    )
    return totals, over


def _must_go_on(totals: EpisodeTotals, max_steps: int) -> jax.Array:
    """Whether a requested episode is running, or will begin."""
    n_episodes = totals.lengths.size
    begins = (totals.begun < n_episodes) & (totals.steps < _last(totals, max_steps, False))
    return jnp.any(totals.episode < n_episodes) | begins


def _last(totals: EpisodeTotals, max_steps: int, begins_at_cut: bool) -> int:
    """The number of steps after which no episode begins."""
    n_rounds = -(-totals.lengths.size // totals.episode.size)
    return INT32_MAX if begins_at_cut else min(max_steps * n_rounds, INT32_MAX)


add_step: Any = jax.jit(_add_step, static_argnums=(5, 6))
must_go_on: Any = jax.jit(_must_go_on, static_argnums=1)
