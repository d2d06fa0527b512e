"""The states from which both sides are compared: a long walk of ours, and a choice from it."""

from typing import Any, NamedTuple, cast

import jax
import numpy as np

from envrax.testing.match.environment import REWARD, TERMINATED, WIDTH, Environment
from envrax.testing.match.numbers import columns, count, join, take, where

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
        return np.any(self.numbers[..., :REWARD], axis=-1)

    def at(self, index: Any) -> "Steps":
        """Some rows."""
        return Steps(*take(tuple(self), index))

    def flat(self) -> "Steps":
        """The same with one leading axis in place of two."""
        return Steps(*jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tuple(self)))


def explore(environment: Environment, starts: Any) -> tuple[Steps, Steps]:
    """
    A walk, with axes (steps, rows), and all steps that were visited, with one.

    After the walk come short ones, each of which begins where those before came furthest.
    """
    first = walk(environment, starts, N_STEPS)
    visited = first.flat()
    for _ in range(ROUNDS):
        running = visited if visited.ended.all() else visited.at(~visited.ended)
        apart = take(running.state, spread(environment, running, WIDTH))
        begins = join([apart, take(starts, slice(WIDTH // 4))])
        found = walk(environment, begins, ROUND_STEPS).flat()
        visited = Steps(*join([tuple(visited), tuple(found)]))
    return first, visited


def walk(environment: Environment, starts: Any, n_steps: int) -> Steps:
    """
    Steps with axes (n_steps, rows); an episode begins in one of `starts`.

    There are fewer steps where states or observations are large.
    """
    random = environment.random
    state = take(starts, np.arange(WIDTH) % count(starts))
    n_bytes = sum(x.nbytes for x in jax.tree.leaves(state)) + 8 * WIDTH * len(environment.names)
    n_steps = int(min(n_steps, max(2, MOST_BYTES // n_bytes)))
    actions: Any = None
    if not environment.has_masks:
        actions = environment.plan(state, WIDTH, n_steps)[0]
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
    found = [*environment.columns(states, ("step", "done")).values()]
    numbers = np.stack([np.zeros(count(states)), *found], axis=1)
    spread = numbers.std(axis=0)
    return ((numbers - numbers.mean(axis=0)) / np.where(spread > 0, spread, 1))[:, spread > 0]


def extremes(environment: Environment, steps: Steps, n: int) -> np.ndarray:
    """Rows: a quarter that terminates, a quarter of extremes of each number, others at random."""
    random = environment.random
    varied = [x for x in environment.columns(steps.state).values() if np.ptp(x) > 0]
    each = max(1, n // 8 // max(1, len(varied)))
    chosen = [random.permutation(np.flatnonzero(steps.terminated))[: n // 4]]
    mixed = random.permutation(len(steps.numbers))
    each = min(each, len(mixed))
    for x in varied:
        order = np.argpartition(x[mixed], (each - 1, len(mixed) - each))
        chosen += [mixed[order[:each]], mixed[order[-each:]]]
    rest = max(n // 2, n - sum(map(len, chosen)))
    chosen.append(random.integers(len(steps.numbers), size=rest))
    return np.concatenate(chosen)


def spread(environment: Environment, steps: Steps, n: int) -> np.ndarray:
    """Rows of n distinct states with their actions: half at random, half that lie far apart."""
    random = environment.random
    rows = random.permutation(len(steps.numbers))[: 20 * n]
    actions = np.stack([*columns(take(steps.action, rows)).values()], axis=1)
    numbers = np.concatenate([normalised(environment, take(steps.state, rows)), actions], axis=1)
    weights = cast(Any, random.normal(size=numbers.shape[1]))
    first: Any = np.unique(numbers @ weights, return_index=True)[1]
    first = random.permutation(first)
    chosen = [*first[: n // 2]] or [0]
    distance = np.full(len(numbers), np.inf)
    for i in chosen:
        distance = np.minimum(distance, np.square(numbers - numbers[i]).sum(axis=1))
    while len(chosen) < n and distance.max() > 0:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.square(numbers - numbers[chosen[-1]]).sum(axis=1))
    return rows[np.array(chosen)]
