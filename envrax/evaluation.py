"""`evaluate`: the returns of a policy over whole episodes, short ones not counted too often."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks import require_count
from envrax._ends import episode_end
from envrax._jax.keys import require_key
from envrax._jax.mesh import on_every_device
from envrax._jax.programs import is_traced
from envrax._play import AnyBatch, Play, Policy, Rollout, Transition
from envrax.env import AnyEnv, JaxEnv

__all__ = ["Evaluation", "evaluate"]

LONGEST = 2**31 - 1  # what an int32 can count


class Evaluation(NamedTuple):
    """
    What `evaluate` returns, one entry an episode.

    Attributes
    ----------
    returns : jax.Array
        float32, the sum of the rewards; NaN for an episode that did not begin.
    lengths : jax.Array
        int32, the number of steps.
    complete : jax.Array
        bool, False for an episode that `max_steps` cut, whose return and length are those up to
        there, and for one that did not begin, whose length is 0.
    """

    returns: jax.Array
    lengths: jax.Array
    complete: jax.Array


class _Count(NamedTuple):
    """Where an evaluation of a batch stands."""

    at: Rollout
    steps: Any
    episode: Any  # of each slot: its number in the order of starts
    began: Any
    sums: Evaluation


def evaluate(
    env: AnyEnv | AnyBatch,
    policy: Policy | None,
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
    env : JaxEnv or BatchedEnv
        The environment. Of a `JaxEnv`, all episodes run side by side: episode i is the first one
        that `rollout` plays from `start(env, jax.random.split(rng, n_episodes)[i], policy_state)`.
        Of a batch, episodes are those of `rollout` from `start(env, rng, policy_state)`, in order
        of their start, and of slots where several start in the same step.
    policy : callable or None
        As for `rollout`; what it returns as extras is dropped.
    rng : jax.Array
        One PRNG key.
    n_episodes : int
        Number of episodes.
    policy_state : pytree, optional
        As for `start`.
    max_steps : int, optional
        Cut episodes after that many steps. A slot of a batch cannot be reset then, and plays on
        without being counted; after `max_steps * ceil(n_episodes / n_slots)` steps no more episodes
        begin. With as many slots as episodes all begin at once. Without it, an episode that never
        ends never returns.

    Returns
    -------
    Evaluation
        `returns`, `lengths` and `complete`, each of shape `(n_episodes,)`.

    Raises
    ------
    TypeError, ValueError
        As for `rollout`.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> found = evaluate(CountingEnv(), None, jax.random.key(0), 4)
    >>> found.lengths.tolist(), found.complete.tolist()
    ([5, 5, 5, 5], [True, True, True, True])
    """
    play = Play(env, policy, "evaluate", resets=False)
    n_episodes, max_steps = counts("evaluate", n_episodes, max_steps)
    require_key(rng, "evaluate", "pass one key.")
    given = play.arrays, rng, policy_state
    if not play.given.traceable:
        return _on_the_host(play, n_episodes, max_steps, *given)
    run = evaluated if is_traced(given) else _compiled_evaluate
    return run(play, n_episodes, max_steps, *given)


def counts(who: str, n_episodes: Any, max_steps: Any) -> tuple[int, int | None]:
    """The number of episodes and of their steps, or an error."""
    n_episodes = require_count(f"{who}: expected n_episodes", n_episodes)
    if max_steps is not None:
        max_steps = min(require_count(f"{who}: expected max_steps", max_steps), LONGEST)
    return n_episodes, max_steps


def evaluated(
    play: Play, n_episodes: int, max_steps: int | None, arrays: Any, rng: Any, policy_state: Any
) -> Evaluation:
    """What `evaluate` returns, not compiled."""
    if isinstance(play.env, JaxEnv):
        rngs = jax.random.split(rng, n_episodes)
        return jax.vmap(partial(_episode, play, max_steps, arrays, policy_state))(rngs)
    count = _counting(play.begin(rng, policy_state), play.env.n_slots, n_episodes)

    def step(count: _Count) -> _Count:
        at, transition = play.step(arrays, count.at)
        return _counted(count, at, transition, max_steps)

    return _found(jax.lax.while_loop(partial(_goes_on, max_steps), step, count))


_compiled_evaluate: Any = jax.jit(evaluated, static_argnums=(0, 1, 2))


def _episode(
    play: Play, max_steps: int | None, arrays: Any, policy_state: Any, rng: Any
) -> Evaluation:
    """One episode of a single environment."""

    def goes_on(carry: tuple[Rollout, Evaluation]) -> jax.Array:
        _, found = carry
        within = True if max_steps is None else found.lengths < max_steps
        return ~found.complete & within

    def step(carry: tuple[Rollout, Evaluation]) -> tuple[Rollout, Evaluation]:
        at, found = carry
        at, transition = play.step(arrays, at)
        reward = jnp.sum(transition.reward, dtype=jnp.float32)
        return at, Evaluation(found.returns + reward, found.lengths + 1, transition.done)

    none = Evaluation(jnp.float32(0), jnp.int32(0), jnp.bool_(False))
    return jax.lax.while_loop(goes_on, step, (play.begin(rng, policy_state), none))[1]


def _counting(at: Rollout, n_slots: int, n_episodes: int) -> _Count:
    sums = Evaluation(
        jnp.zeros(n_episodes, jnp.float32),
        jnp.zeros(n_episodes, jnp.int32),
        jnp.zeros(n_episodes, jnp.bool_),
    )
    slots = jnp.arange(n_slots, dtype=jnp.int32)
    return _Count(at, jnp.int32(0), slots, jnp.int32(n_slots), sums)


def _counted(count: _Count, at: Rollout, transition: Transition, max_steps: int | None) -> _Count:
    """One step more. What is written for episodes past the last one that counts is dropped."""
    told = jnp.asarray(transition.reward), jnp.asarray(transition.done)
    rewards, done = on_every_device(told)
    episode_end("evaluate", count.episode.shape, done, {})  # refuses what is no bool
    rewards = jnp.sum(rewards.reshape(done.size, -1), axis=1, dtype=jnp.float32)
    returns, lengths, complete = count.sums
    n_episodes, episode = complete.size, count.episode
    if max_steps is not None:
        over = lengths.at[episode].get(mode="fill", fill_value=0) >= max_steps
        episode = jnp.where(over, n_episodes, episode)
    sums = Evaluation(
        returns.at[episode].add(rewards, mode="drop"),
        lengths.at[episode].add(1, mode="drop"),
        complete.at[episode].set(done, mode="drop"),
    )
    # Kept from running over: all numbers past the last one mean the same.
    begun = jnp.minimum(count.began + jnp.cumsum(done, dtype=jnp.int32), n_episodes + 1)
    steps = count.steps + 1
    if max_steps is not None:
        n_rounds = -(-n_episodes // episode.size)
        begun = jnp.where(steps < min(max_steps * n_rounds, LONGEST), begun, n_episodes + 1)
    return _Count(at, steps, jnp.where(done, begun - 1, count.episode), begun[-1], sums)


def _found(count: _Count) -> Evaluation:
    # Not 0, which a mean would count.
    returns, lengths, _ = count.sums
    return count.sums._replace(returns=jnp.where(lengths > 0, returns, jnp.float32(jnp.nan)))


def _goes_on(max_steps: int | None, count: _Count) -> jax.Array:
    _, lengths, complete = count.sums
    if max_steps is None:
        return ~jnp.all(complete)
    running = lengths.at[count.episode].get(mode="fill", fill_value=max_steps) < max_steps
    return jnp.any(running) | (count.began < complete.size)


def _on_the_host(
    play: Play, n_episodes: int, max_steps: int | None, _: Any, rng: Any, policy_state: Any
) -> Evaluation:
    if isinstance(play.env, JaxEnv):
        rngs = jax.random.split(rng, n_episodes)
        episodes = [_host_episode(play, max_steps, rng, policy_state) for rng in rngs]
        return jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *episodes)
    count = _counting(play.begin(rng, policy_state), play.env.n_slots, n_episodes)
    counted: Any = jax.jit(_counted, static_argnums=3)
    while _goes_on(max_steps, count):
        at, step = play.step_with(count.at, *play.compiled_act(count.at))
        none = count._replace(at=None)
        told = step._replace(**dict.fromkeys(set(step._fields) - {"reward", "done"}))
        count = counted(none, None, told, max_steps)._replace(at=at)
    return _found(count)


def _host_episode(play: Play, max_steps: int | None, rng: Any, policy_state: Any) -> Evaluation:
    at, total, length, done = play.begin(rng, policy_state), np.float32(0), 0, False
    while not done and (max_steps is None or length < max_steps):
        at, step = play.step_with(at, *play.compiled_act(at))
        total += np.sum(step.reward, dtype=np.float32)
        length, done = length + 1, bool(step.done)
    return Evaluation(jnp.float32(total), jnp.int32(length), jnp.bool_(done))
