"""`Evaluation`, the result of `evaluate`, and the tally of episodes that leads to it."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.counts import NO_LIMIT
from envrax._jax.types import is_traced
from envrax.agent_values import add_rewards, by_agent
from envrax.batched_env import AnyBatch
from envrax.termination import End


class Evaluation(NamedTuple):
    """
    Result of `evaluate`: one entry for each episode. `str` gives a summary.

    Of `evaluate` under `jax.vmap`, it has leading axes, and `str` gives a row for each index.

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
        counted = {f"return {agent}".strip(): np.asarray(x) for agent, x in agents.items()}
        counted["length"] = np.asarray(self.lengths)
        if complete.ndim > 1:  # of `jax.vmap`
            rows = [["", *counted, "episodes", "cut"]]
            for at in np.ndindex(complete.shape[:-1]):
                means = (mean_and_error(x[at]) for x in counted.values())
                counts = complete[at].size, np.sum(~complete[at])
                rows.append([", ".join(map(str, at)), *means, *map(str, counts)])
            return aligned(rows)
        lines = [f"{name} {mean_and_error(x)}" for name, x in counted.items()]
        lines.append(f"{complete.size} episodes, {int(np.sum(~complete))} of them cut")
        return "\n".join(lines)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns end below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.rjust, row, widths)) for row in rows)


def mean_and_error(x: Any) -> str:
    """The mean, and its standard error."""
    x = np.asarray(x, np.float64)
    error = x.std(ddof=1) / np.sqrt(x.size) if x.size > 1 else np.nan
    return f"{x.mean():.4g} +- {error:.2g}"


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


def first_tally(env: AnyBatch, n_episodes: int, info: Any) -> Tally:
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
    return min(max_steps * n_rounds, NO_LIMIT)


def without_missing(found: Evaluation, n_episodes: int) -> Evaluation:
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
