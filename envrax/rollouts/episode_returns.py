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
    Returns and lengths of the requested episodes up to some step.

    Attributes
    ----------
    steps : jax.Array
        int32, the number of steps.
    episode : jax.Array
        int32, the number of the episode that each slot plays.
    played, played_low : jax.Array
        float32, the return of the episode that each slot plays, and its rounding error.
    returns, lengths, complete : jax.Array
        As in `Evaluation`. The return of an episode that has not begun is 0.
    """

    steps: jax.Array
    episode: jax.Array
    played: Any
    played_low: Any
    returns: Any
    lengths: jax.Array
    complete: jax.Array


def first_totals(env: BatchedEnv[Any, Any], n_episodes: int) -> EpisodeTotals:
    """The totals before the first step."""
    of = partial(jnp.zeros, n_episodes)
    returns = by_agent(env, of(jnp.float32))
    slots = jnp.arange(env.n_slots, dtype=jnp.int32)
    none = by_agent(env, jnp.zeros(env.n_slots, jnp.float32))
    return EpisodeTotals(jnp.int32(0), slots, none, none, returns, of(jnp.int32), of(bool))


def _add_step(totals: EpisodeTotals, rewards: Any, done: Any, max_steps: int) -> EpisodeTotals:
    """The totals after one more step; episodes beyond the requested ones are dropped."""
    steps, slot_episode, played, played_low, returns, lengths, complete = totals
    is_cut = lengths.at[slot_episode].get(mode="fill", fill_value=0) >= max_steps
    episode = jnp.where(is_cut, complete.size, slot_episode)
    begun = jnp.max(slot_episode) + jnp.cumsum(done, dtype=jnp.int32)
    begun = jnp.where(steps + 1 < _last(totals, max_steps), begun, complete.size)
    # All episodes beyond the last one share a number, which therefore cannot overflow.
    begun = jnp.minimum(begun, complete.size)

    played, played_low = add_rewards(played, played_low, rewards)

    def write(returns: jax.Array, played: jax.Array) -> jax.Array:
        return returns.at[episode].set(played, mode="drop")

    def begin(x: jax.Array) -> jax.Array:
        return jnp.where(done, jnp.float32(0), x)

    return EpisodeTotals(
        steps + 1,
        jnp.where(done, begun, slot_episode),
        jax.tree.map(begin, played),
        jax.tree.map(begin, played_low),
        jax.tree.map(write, returns, played),
        lengths.at[episode].add(1, mode="drop"),
        complete.at[episode].set(done, mode="drop"),
    )


def _must_go_on(totals: EpisodeTotals, max_steps: int) -> jax.Array:
    """Whether a requested episode is running, or will begin."""
    lengths, n_episodes = totals.lengths, totals.lengths.size
    running = lengths.at[totals.episode].get(mode="fill", fill_value=max_steps) < max_steps
    begins = (jnp.max(totals.episode) + 1 < n_episodes) & (totals.steps < _last(totals, max_steps))
    return jnp.any(running) | begins


def _last(totals: EpisodeTotals, max_steps: int) -> int:
    """The number of steps after which no episode begins."""
    n_rounds = -(-totals.lengths.size // totals.episode.size)
    return min(max_steps * n_rounds, INT32_MAX)


add_step: Any = jax.jit(_add_step, static_argnums=3)
must_go_on: Any = jax.jit(_must_go_on, static_argnums=1)
