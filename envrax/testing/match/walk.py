"""The states from which both sides are compared: a long walk of ours, and a choice from it."""

from typing import Any, NamedTuple, cast

import jax
import numpy as np

from envrax.testing.match.environment import TERMINATED, WIDTH, Environment, ended
from envrax.testing.match.numbers import columns, count, join, stacked, take, where

N_STEPS = 200  # of each row
ROUNDS = 6
ROUND_STEPS = 50
MOST_BYTES = 5e8  # of the states of a walk
MOST_STARTS = 640  # first states that are kept


class Steps(NamedTuple):
    """States, actions, and the numbers of the steps, row by row."""

    state: Any
    action: Any
    numbers: np.ndarray

    @property
    def terminated(self) -> np.ndarray:
        """Which steps terminated the episode."""
        return self.numbers[..., TERMINATED] > 0

    @property
    def ended(self) -> np.ndarray:
        """Which steps ended the episode."""
        return ended(self.numbers)


def explore(environment: Environment, starts: Any) -> tuple[Steps, Steps]:
    """
    A walk, with axes (steps, rows), and all steps that were visited, with one.

    After the walk come short ones, each of which begins where those before came furthest.
    """
    first = walk(environment, starts, N_STEPS)
    visited = flat(first)
    for _ in range(ROUNDS):
        running = visited if visited.ended.all() else take(visited, ~visited.ended)
        apart = take(running.state, spread(environment, running, WIDTH))
        begins = join([apart, take(starts, slice(WIDTH // 4))])
        visited = join([visited, flat(walk(environment, begins, ROUND_STEPS))])
    return first, visited


def flat(steps: Any) -> Any:
    """One leading axis in place of two."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), steps)


def walk(environment: Environment, starts: Any, n_steps: int) -> Steps:
    """
    Steps with axes (n_steps, rows); an episode begins in one of `starts`.

    There are fewer steps where states or observations are large.
    """
    random = environment.random
    state = take(starts, np.arange(WIDTH) % count(starts))
    n_bytes = sum(x.nbytes for x in jax.tree.leaves(state)) + 8 * WIDTH * len(environment.names)
    n_steps = int(min(n_steps, max(2, MOST_BYTES // n_bytes)))
    actions = None if environment.has_masks else environment.plan(state, WIDTH, n_steps)
    found: list[Steps] = []
    for t in range(n_steps):
        action = environment.actions(state) if actions is None else take(actions, (slice(None), t))
        new_state, numbers = environment.step(state, action)
        found.append(Steps(state, action, numbers))
        again = take(starts, random.integers(count(starts), size=WIDTH))
        state = where(found[-1].ended, again, new_state)
    return jax.tree.map(lambda *x: np.stack(x), *found)


def steps_from(environment: Environment, states: Any) -> Steps:
    """A step from each of given states, but for those whose episode has ended."""
    running = ~np.asarray(states.done, bool)
    if not running.any():
        raise ValueError(
            f"match_env: expected `states` of running episodes; got {len(running)} whose `done` is "
            "True. Pass states from before the last step."
        )
    states = take(states, running)
    action = environment.actions(states)
    return Steps(states, action, environment.step(states, action)[1])


def normalised(environment: Environment, states: Any) -> np.ndarray:
    """Numbers of states but for clocks, of mean 0 and deviation 1; a row for each state."""
    numbers = stacked(environment.columns(states, ("step", "done")), count(states))
    spread = numbers.std(axis=0)
    return ((numbers - numbers.mean(axis=0)) / np.where(spread > 0, spread, 1))[:, spread > 0]


def extremes(environment: Environment, steps: Steps, n: int) -> np.ndarray:
    """Rows: a quarter that terminates, a quarter of extremes of each number, others at random."""
    random = environment.random
    varied = [x for x in environment.columns(steps.state).values() if np.ptp(x) > 0]
    mixed = random.permutation(len(steps.numbers))
    each = min(max(1, n // 8 // max(1, len(varied))), len(mixed))
    chosen = [random.permutation(np.flatnonzero(steps.terminated))[: n // 4]]
    for x in varied:
        order = mixed[np.argpartition(x[mixed], (each - 1, len(mixed) - each))]
        chosen += [order[:each], order[-each:]]
    rest = max(n // 2, n - sum(map(len, chosen)))
    return np.concatenate([*chosen, random.integers(len(steps.numbers), size=rest)])


def spread(environment: Environment, steps: Steps, n: int) -> np.ndarray:
    """Rows of n distinct states with their actions: half at random, half that lie far apart."""
    random = environment.random
    rows = random.permutation(len(steps.numbers))[: 20 * n]
    actions = stacked(columns(take(steps.action, rows)), len(rows))
    numbers = np.concatenate([normalised(environment, take(steps.state, rows)), actions], axis=1)
    weights = cast(Any, random.normal(size=numbers.shape[1]))
    distinct: Any = np.unique(numbers @ weights, return_index=True)[1]
    at_random = random.permutation(distinct)[: n // 2]
    chosen: list[int] = []
    distance = np.full(len(numbers), np.inf)
    while len(chosen) < n and distance.max() > 0:
        is_random = len(chosen) < len(at_random)
        chosen.append(int(at_random[len(chosen)] if is_random else distance.argmax()))
        distance = np.minimum(distance, np.square(numbers - numbers[chosen[-1]]).sum(axis=1))
    return rows[np.array(chosen)]
