"""The checks of `match_env`, one function each, over both sides of a `Pair`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from envrax.testing.match.compare import FLOAT64, Rounding, shared
from envrax.testing.match.coverage import CASES, Steps
from envrax.testing.match.numbers import join, take
from envrax.testing.match.reference import Reference
from envrax.testing.match.report import ALIKE, DIFFERS, EQUAL, SKIPPED, Case, Check
from envrax.testing.match.samples import difference
from envrax.testing.match.slots import TERMINATED, TRUNCATED, Slots
from envrax.testing.match.spaces import space_differences

EPISODES = 32  # in open loop
FEW_DRAWS = 4  # of other keys; more where some steps depend on them
MOST_DRAWS = 40
PARTED = 1e-2  # a relative error that rounding does not cause in one step


@dataclass
class Pair:
    """Both sides, the first observations, a walk with axes (n_steps, slots), and cases from it."""

    slots: Slots
    reference: Reference
    first: np.ndarray
    visited: Steps
    cases: Steps
    rounding: Rounding

    def episode(self, step: int, slot: int) -> Steps:
        """The visited episode that begins there, up to its end or that of the walk."""
        ends = (self.visited.terminated | self.visited.truncated)[step:, slot]
        last = step + (int(np.argmax(ends)) + 1 if ends.any() else len(ends))
        return self.visited.at((slice(step, last), slot))

    def random(self, steps: Steps) -> np.ndarray:
        """Which steps depend on the key; a key that is split and not used changes no result."""
        first = self.slots.ask(steps.state, steps.action)
        found = np.zeros(len(first), bool)
        for draw in range(MOST_DRAWS):
            if draw == FEW_DRAWS and not found.any():
                break
            other = self.slots.ask(self.slots.with_other_keys(steps.state), steps.action)
            found |= self.rounding.errors(first, other).max(axis=1) > FLOAT64.tolerance
        return found


def check_spaces(pair: Pair) -> Check:
    """Both spaces."""
    found: list[str] = []
    for name in ("observation_space", "action_space"):
        theirs = getattr(pair.reference.raw, name, None)
        if theirs is None:
            return Check("spaces", SKIPPED, "the reference has none")
        found += space_differences(getattr(pair.slots.env, name), theirs, name)
    said = "; ".join(found) or "kinds, shapes, bounds"
    return Check("spaces", DIFFERS if found else EQUAL, said)


def check_one_step(pair: Pair, extract: Callable[[Any], Any] | None) -> Check:
    """One step from the same states: those injected, those extracted."""
    given: list[tuple[Steps, np.ndarray]] = []
    if pair.reference.inject is not None:
        given.append((pair.cases, pair.reference.ask(pair.cases.state, pair.cases.action)))
    if extract is not None:
        given.append(_extracted(pair, extract))
    if not given:
        return Check("one step", SKIPPED, "needs `inject` or `extract`")
    steps, theirs = join(given)
    is_random = pair.random(steps)
    if is_random.all():
        return Check("one step", SKIPPED, "every step depends on the PRNG key")
    steps, theirs = take((steps, theirs), ~is_random)
    ours = pair.slots.ask(steps.state, steps.action)
    theirs[:, TRUNCATED] = ours[:, TRUNCATED]  # the reference has a clock of its own
    differs = pair.rounding.differing(steps, ours, theirs)
    left_out = f", {is_random.sum()} random ones left out" * bool(is_random.any())
    said = f"{len(differs)} states{left_out}; {_largest(pair, ours, theirs)}"
    if not differs.any():
        return Check("one step", EQUAL, said)
    case = pair.rounding.case(steps, ours, theirs, int(np.argmax(differs)))
    new = {f"the new {name}": x for name, x in zip(pair.slots.names, ours.T, strict=True)}
    return Check(
        "one step", DIFFERS, f"{differs.sum()} of {said}", case, shared(steps, new, differs)
    )


def check_open_loop(pair: Pair) -> Check:
    """Episodes from the same states, under the same actions, until they drift or chance decides."""
    if pair.reference.inject is None:
        return Check("open loop", SKIPPED, "needs `inject`")
    parted: list[tuple[int, Case]] = []
    n_steps = 0
    for slot in range(EPISODES):
        steps = pair.episode(0, slot)
        theirs = pair.reference.play(steps.action, take(steps.state, 0))
        steps = steps.at(slice(len(theirs)))
        ours = pair.slots.ask(steps.state, steps.action)
        error = pair.rounding.errors(ours, theirs).max(axis=1)
        before = np.concatenate([[0], error[:-1]])
        n = int(np.sum(np.cumprod(before <= pair.rounding.precision.edge)))
        nudge = pair.rounding.precision.nudge + 4 * before[n - 1]
        loose = pair.rounding.precision._replace(tolerance=PARTED, nudge=nudge)
        rounding = pair.rounding._replace(precision=loose)
        last = steps.at([n - 1]), ours[n - 1 : n], theirs[n - 1 : n]
        if rounding.differing(*last).any():
            is_random = pair.random(steps.at(slice(n)))
            if not is_random.any():
                parted.append((n, rounding.case(*last, 0)))
            n = int(np.sum(np.cumprod(~is_random)))
        n_steps += n
    if not parted:
        verdict = EQUAL if n_steps else SKIPPED  # where chance decides all
        return Check("open loop", verdict, f"{EPISODES} episodes, {n_steps} steps")
    n, case = min(parted, key=lambda x: x[0])
    said = f"{len(parted)} of {EPISODES} episodes part, the first in step {n}"
    return Check("open loop", DIFFERS, said, case)


def check_starts(pair: Pair) -> Check:
    """The distribution of the first observations."""
    theirs = np.stack([pair.reference.reset() for _ in pair.first])
    said, p = difference(pair.slots.names, pair.first, theirs, pair.slots.random)
    return Check("starts", DIFFERS if said else ALIKE, f"{len(theirs)} resets; {said or p}")


def _extracted(pair: Pair, extract: Callable[[Any], Any]) -> tuple[Steps, np.ndarray]:
    """Steps of the reference from states of its own, under actions of the walk."""
    actions = jax.tree.map(lambda x: np.concatenate(np.moveaxis(x, 1, 0)), pair.visited.action)
    actions = take(actions, slice(CASES))
    states: list[Any] = []
    theirs: list[np.ndarray] = []
    for i in range(len(jax.tree.leaves(actions)[0])):
        if not theirs or theirs[-1][TERMINATED] or theirs[-1][TRUNCATED]:
            pair.reference.reset()
        states.append(
            pair.slots.as_numpy(extract(pair.reference.raw), take(pair.visited.state, (0, 0)))
        )
        theirs.append(pair.reference.step(take(actions, i)))
    state = jax.tree.map(lambda *x: np.stack(x), *states)
    ends = np.stack(theirs)[:, TERMINATED:] > 0
    return Steps(state, actions, *ends.T), np.stack(theirs)


def _largest(pair: Pair, ours: np.ndarray, theirs: np.ndarray) -> str:
    """The number with the largest error."""
    with np.errstate(invalid="ignore"):
        error = np.where(ours == theirs, 0, abs(ours - theirs)).max(axis=0)
    at = int(np.argmax(error))
    return f"largest error {error[at]:.2g}, of {pair.slots.names[at]}" if error[at] else "no error"
