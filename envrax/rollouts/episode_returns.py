"""TODO."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from envrax._checks.counts import INT32_MAX
from envrax.agent_values import by_agent
from envrax.batched_env import BatchedEnv


class Count(NamedTuple):
    """
    The episodes of a batch, counted up to some step.

    Attributes
    ----------
    steps : jax.Array
        int32, the number of steps.
    episode : jax.Array
        int32, the number of the episode that each slot plays.
    returns, lengths, complete : jax.Array
        As in `Evaluation`, but for the returns of episodes that did not begin, which are 0.
    """

    steps: jax.Array
    episode: jax.Array
    returns: Any
    lengths: jax.Array
    complete: jax.Array


def begin(env: BatchedEnv[Any, Any], n_episodes: int) -> Count:
    """The count before the first step."""
    of = partial(jnp.zeros, n_episodes)
    returns = by_agent(env, of(jnp.float32))
    slots = jnp.arange(env.n_slots, dtype=jnp.int32)
    return Count(jnp.int32(0), slots, returns, of(jnp.int32), of(bool))


def _add(count: Count, rewards: Any, done: Any, max_steps: int) -> Count:
    """The count after one more step; episodes beyond the requested ones are dropped."""
    steps, slot_episode, returns, lengths, complete = count
    over = lengths.at[slot_episode].get(mode="fill", fill_value=0) >= max_steps
    episode = jnp.where(over, complete.size, slot_episode)
    begun = jnp.max(slot_episode) + jnp.cumsum(done, dtype=jnp.int32)
    begun = jnp.where(steps + 1 < _last(count, max_steps), begun, complete.size)
    # All episodes beyond the last one share a number, which therefore cannot overflow.
    begun = jnp.minimum(begun, complete.size)

    def added(total: jax.Array, x: jax.Array) -> jax.Array:
        x = jnp.sum(x.reshape(done.size, -1), axis=1, dtype=jnp.float32)
        return total.at[episode].add(x, mode="drop")

    return Count(
        steps + 1,
        jnp.where(done, begun, slot_episode),
        jax.tree.map(added, returns, rewards),
        lengths.at[episode].add(1, mode="drop"),
        complete.at[episode].set(done, mode="drop"),
    )


def _goes_on(count: Count, max_steps: int) -> jax.Array:
    """Whether a requested episode is running, or will begin."""
    lengths, n_episodes = count.lengths, count.lengths.size
    running = lengths.at[count.episode].get(mode="fill", fill_value=max_steps) < max_steps
    begins = (jnp.max(count.episode) + 1 < n_episodes) & (count.steps < _last(count, max_steps))
    return jnp.any(running) | begins


def _last(count: Count, max_steps: int) -> int:
    """The number of steps after which no episode begins."""
    n_rounds = -(-count.lengths.size // count.episode.size)
    return min(max_steps * n_rounds, INT32_MAX)


add: Any = jax.jit(_add, static_argnums=3)
goes_on: Any = jax.jit(_goes_on, static_argnums=1)
