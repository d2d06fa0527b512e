"""The states from which both sides are compared: a long walk, and a choice from it."""

from typing import Any, NamedTuple

import jax
import numpy as np

from envrax.testing.match.numbers import columns, join, take, where
from envrax.testing.match.slots import TERMINATED, WIDTH, Slots

CASES = 4000
ROUNDS = 16
MOST_NUMBERS = 500  # of a state, whose extremes are looked for
MOST_BYTES = 1e9  # of the states of a walk
PERSISTENCE = 0.0, 0.75, 0.94, 0.985  # the chance that a slot repeats its action, by slot


class Steps(NamedTuple):
    """States, actions, and whether the step terminated or truncated the episode, row by row."""

    state: Any
    action: Any
    terminated: np.ndarray
    truncated: np.ndarray

    def at(self, index: Any) -> "Steps":
        """Some rows."""
        return Steps(*take(tuple(self), index))

    def flat(self) -> "Steps":
        """The same with one leading axis in place of two."""
        return Steps(*jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tuple(self)))


def explore(slots: Slots, starts: Any, n_steps: int) -> tuple[Steps, Steps]:
    """
    A walk, and all steps that were visited: those of the walk, and of short ones from far states.

    The walk takes half of the steps. Each short one begins where those before came furthest.
    """
    first = walk(slots, starts, max(1, n_steps // 2))
    visited = first.flat()
    for _ in range(ROUNDS):
        begins = join([far(visited, slots.random), take(starts, slice(WIDTH))])
        found = walk(slots, begins, max(1, n_steps // 2 // ROUNDS)).flat()
        visited = Steps(*join([tuple(visited), tuple(found)]))
    return first, visited


def far(steps: Steps, random: np.random.Generator) -> Any:
    """A running state for each slot, the one that lies furthest in a random direction."""
    running = steps.at(~(steps.terminated | steps.truncated))
    numbers = np.stack([*columns(running.state).values()][:MOST_NUMBERS], axis=1)
    numbers = (numbers - numbers.mean(axis=0)) / np.maximum(numbers.std(axis=0), 1e-9)
    turns = random.normal(size=(WIDTH, numbers.shape[1])) ** 3  # some numbers count more
    return take(running.state, np.argmax(turns @ numbers.T, axis=1))


def walk(slots: Slots, starts: Any, n_steps: int) -> Steps:
    """
    Steps of all slots, with axes (n_steps, slots); an episode begins in one of `starts`.

    A slot repeats its action often, rarely or never; never where there are masks of legal actions.
    There are fewer steps where states are large.
    """
    n_starts = len(jax.tree.leaves(starts)[0])
    state = take(starts, np.arange(WIDTH) % n_starts)
    n_bytes = sum(x.nbytes for x in jax.tree.leaves(state))
    persistence = np.resize(PERSISTENCE, WIDTH) * (slots.env.action_mask(take(state, 0)) is None)
    action = slots.actions(state)
    found: list[Steps] = []
    for _ in range(int(min(n_steps, max(1, MOST_BYTES // n_bytes)))):
        repeats = slots.random.random(WIDTH) < persistence
        action = where(repeats, action, slots.actions(state))
        new_state, numbers = slots.step(state, action)
        ends = numbers[:, TERMINATED:] > 0
        found.append(Steps(state, action, *ends.T))
        again = take(starts, slots.random.integers(n_starts, size=WIDTH))
        state = where(ends.any(axis=1), again, new_state)
    return jax.tree.map(lambda *x: np.stack(x), *found)


def steps_from(slots: Slots, states: Any) -> Steps:
    """A step from each of given states, but for those whose episode has ended."""
    states = take(states, ~states.done)
    n = len(jax.tree.leaves(states)[0])
    chunks = [take(states, np.arange(i, i + WIDTH) % n) for i in range(0, n, WIDTH)]
    actions = take(join([slots.actions(chunk) for chunk in chunks]), slice(n))
    numbers = slots.ask(states, actions)
    return Steps(states, actions, *(numbers[:, TERMINATED:] > 0).T)


def choose(steps: Steps, random: np.random.Generator) -> Steps:
    """A quarter that terminates, a quarter of extremes of each number, and the rest at random."""
    n = len(steps.terminated)
    varied = [x for x in columns(steps.state).values() if np.ptp(x) > 0]
    each = max(1, CASES // 8 // max(1, len(varied)))
    chosen = [random.permutation(np.flatnonzero(steps.terminated))[: CASES // 4]]
    for x in varied[:MOST_NUMBERS]:
        order = np.lexsort((random.random(n), x))
        chosen += [order[:each], order[-each:]]
    chosen.append(random.integers(n, size=max(0, CASES - sum(map(len, chosen)))))
    return steps.at(np.concatenate(chosen))
