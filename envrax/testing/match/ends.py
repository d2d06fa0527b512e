"""Where episodes end: the limit by the clock, and the edges at which they terminate."""

from typing import Any, NamedTuple

import jax
import numpy as np

from envrax.testing.match.environment import REWARD, TERMINATED, TRUNCATED, WIDTH
from envrax.testing.match.numbers import count, is_float, take
from envrax.testing.match.report import DIFFERS, EQUAL, OPEN, SKIPPED, Case, Check
from envrax.testing.match.trials import FLOAT64, Sides, Windows
from envrax.testing.match.walk import Steps

LONGEST = 20_000  # steps to the limit that are tried
TRIES = 20  # episodes of the reference that may terminate before the limit
BISECTIONS = 60
MOST_VALUES = 5000  # of a leaf, that are looked at
ASKED = 20  # times, beside an edge
REDRAWS = 8  # of keys, under which an edge must stay
MARGIN = 0.05  # of the way, beside an edge, where both sides must agree


def check_limit(sides: Sides) -> Check:
    """
    The step at which the clock ends an episode.

    All but the clock is put back before each step, on both sides: in ours either only `state.step`
    is a clock, or whatever changes by the same number in each step.
    """
    declared = getattr(getattr(sides.reference.raw, "spec", None), "max_episode_steps", None)
    most = _most(sides, declared)
    clocks = _clocks(sides)
    only_step = jax.tree.map(np.zeros_like, clocks).replace(step=np.bool_(True))
    limits = [_our_limit(sides, which, most) for which in (only_step, clocks)]
    limits = [x for x in limits if x.step is not None] or limits[:1]
    if sides.reference.inject is None:
        theirs = declared
        is_known = declared is not None
    else:
        theirs, is_known = _their_limit(sides, most)
        if theirs is None and (agreed := _agree_by_injection(sides, limits)) is not None:
            sides.limit = agreed.step
            sides.sets_clock = True
            said = f"at step {agreed.step} on both sides; `inject` sets the reference's clock"
            return Check("limit", EQUAL, said)
        theirs = theirs or declared
    same = [x for x in limits if x.step == theirs or _wavers(x, theirs)]
    sides.limit = [*same, *limits][0].step
    ours = f"later than {most - 1}" if sides.limit is None else f"{sides.limit}"
    if theirs is None and not is_known:
        verdict = SKIPPED if sides.reference.inject is None else OPEN
        return Check("limit", verdict, f"ours at step {ours}, the reference's was not found")
    when = f"later than {most - 1}" if theirs is None else f"{theirs}"
    said = f"ours at step {ours}, the reference's at step {when}"
    return Check("limit", EQUAL if same or ours == when else DIFFERS, said)


def check_ends(sides: Sides) -> Check:
    """
    The edges at which episodes terminate, found by bisection between two states of the walk.

    The states are mixed one step before, so that our step makes what it derives from them.
    """
    if sides.reference.inject is None:
        return Check("ends", SKIPPED, "needs `inject`")
    before, last = _consecutive(sides)
    mixes = jax.tree.map(_is_continuum, before.state)
    some = before.numbers.shape[0] > 0 and last.terminated.any() and not last.terminated.all()
    if not any(jax.tree.leaves(mixes)) or not some:
        return Check("ends", SKIPPED, "no step terminates, or no number of the state is a float")
    running, ending = (
        np.resize(sides.random.permutation(np.flatnonzero(which)), WIDTH)
        for which in (~last.terminated, last.terminated)
    )
    action = take(last.action, ending)

    def between(share: Any) -> tuple[Windows, np.ndarray, np.ndarray]:
        """Steps from states a share of the way; whether they are running; whether they end."""

        def mix(x: Any, is_mixed: bool) -> Any:
            weight = np.reshape(share, (-1, *[1] * (x.ndim - 1)))
            a, b = x[running], x[ending]
            return (a + weight * (b - a)).astype(x.dtype) if is_mixed else b

        state = jax.tree.map(mix, before.state, mixes)
        state, numbers = sides.environment.step(state, take(before.action, ending))
        terminated = sides.environment.step(state, action)[1][:, TERMINATED] > 0
        steps = Windows(state, jax.tree.map(lambda x: x[:, None], action), np.ones(WIDTH, int))
        return steps, ~np.any(numbers[:, :REWARD], axis=1), terminated

    low = np.zeros(WIDTH)
    high = np.ones(WIDTH)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        ends = between(middle)[2]
        low = np.where(ends, low, middle)
        high = np.where(ends, middle, high)
    edge = 1e-9 if sides.precision is FLOAT64 else 1e-5
    found = np.ones(WIDTH, bool)
    for share in (low - MARGIN, high + MARGIN):  # is a state between two visited ones a legal one?
        steps, are_running, _ = between(np.clip(share, 0, 1))
        found &= are_running
        if found.any():
            differs, rounded, _ = sides.pairs(steps.at(found))
            found[found] = ~differs & ~rounded
    beside = [(between(low - edge), False), (between(high + edge), True)]
    for (steps, are_running, ends), expected in beside:
        on_edge = sides.nearby(steps)[2]
        found &= are_running & (ends == expected) & ~on_edge & _is_sure(sides, steps, expected)
    if not found.any():
        return Check("ends", SKIPPED, "no edge was found at which both sides agree beside it")
    said = f"{found.sum()} edges, to {edge:g} of the way between two states"
    for (steps, *_), expected in beside:
        differs = found.copy()
        for _ in range(ASKED):  # all answers must differ: a reference may end at random
            rows = np.flatnonzero(differs)
            differs[rows] = _terminated(sides.reference.play(*steps.at(rows))) != expected
        if differs.any():
            state, action, _ = steps.at(int(np.argmax(differs)))
            case = Case(state, take(action, 0), "terminated", float(expected), float(not expected))
            return Check("ends", DIFFERS, f"{differs.sum()} of {said}", case)
    return Check("ends", EQUAL, said)


class _Limit(NamedTuple):
    """Where the clock ends our episodes: the step, and the states before it and one earlier."""

    step: int | None
    wavers: bool  # whether a rounding of the state moves it by a step
    before: Any = None
    earlier: Any = None
    action: Any = None


def _wavers(limit: "_Limit", theirs: int | None) -> bool:
    """Whether only rounding is between two limits, as where a clock adds up tenths."""
    if limit.step is None or theirs is None:
        return False
    return limit.wavers and abs(limit.step - theirs) == 1


def _our_limit(sides: Sides, clocks: Any, most: int) -> _Limit:
    """The first step that ends all rows, while only clocks go on."""
    first = take(sides.starts, np.arange(WIDTH) % count(sides.starts))
    action = sides.environment.actions(first)
    nudges = np.where(np.arange(WIDTH) % 2, sides.precision.nudge, 0)
    exact = nudges == 0
    state = earlier = first
    were_ended = np.zeros(WIDTH, bool)
    for step in range(1, most + 1):
        new, numbers = sides.environment.step(state, action, nudges)
        ended = np.any(numbers[:, :REWARD], axis=1)
        if ended[exact].all():
            wavers = not ended.all() or were_ended[~exact].all()
            return _Limit(step, bool(wavers), *(take(x, exact) for x in (state, earlier, action)))
        were_ended = ended
        earlier = state
        state = jax.tree.map(lambda x, old, goes_on: np.where(goes_on, x, old), new, first, clocks)
    return _Limit(None, False)


def _clocks(sides: Sides) -> Any:
    """For each number of the state whether every step of the walk changes it by the same."""
    goes_on = ~sides.walk.ended[:-1]

    def is_clock(x: Any) -> Any:
        if x.dtype == bool or not goes_on.any():
            return np.zeros(x.shape[2:], bool)
        moved: Any = np.diff(x.astype(np.float64), axis=0)[goes_on]
        size = abs(moved[0])
        return (size > 0) & (abs(moved - moved[0]) <= 1e-4 * size).all(axis=0)

    found = jax.tree.map(is_clock, sides.walk.state)
    return found.replace(step=np.bool_(True))


def _their_limit(sides: Sides, most: int) -> tuple[int | None, bool]:
    """The step that truncates, with one state put back before each; and whether that is known."""
    inject: Any = sides.reference.inject
    ends: list[int] = []
    for row in sides.random.integers(count(sides.starts), size=TRIES):
        state = take(sides.starts, slice(row, row + 1))
        action = take(sides.environment.actions(state), 0)
        sides.reference.reset()
        for step in range(1, most + 1):
            inject(sides.reference.raw, take(state, 0))
            numbers = sides.reference.step(action)
            if numbers[TRUNCATED] > 0:
                return step, True
            if numbers[TERMINATED] > 0 or np.isnan(numbers[TERMINATED]):
                ends.append(step)
                break
        else:
            return None, True
    is_clock = len(set(ends)) == 1
    return (ends[0] if is_clock else None), is_clock


def _agree_by_injection(sides: Sides, limits: list[_Limit]) -> _Limit | None:
    """The limit of ours at which the reference ends as well, put before it and one step earlier."""
    for limit in limits:
        if limit.step is None:
            continue
        rows = np.arange(min(8, count(limit.action)))
        action = take(limit.action, (rows, None))
        ends, runs = (
            sides.reference.play(take(state, rows), action, np.ones(len(rows), int))
            for state in (limit.before, limit.earlier)
        )
        at_start = limit.step == 1
        if _ended(ends).all() and (at_start or not _ended(runs).all()):
            return limit
    return None


def _ended(numbers: np.ndarray) -> np.ndarray:
    return np.any(numbers[:, 0, :REWARD] > 0, axis=1)


def _most(sides: Sides, declared: int | None) -> int:
    """How many steps are tried."""
    limit: Any = sides.environment.env.config.max_steps
    ours = limit if isinstance(limit, int) else LONGEST
    return min(max(ours, declared or 0), LONGEST) + 1


def _consecutive(sides: Sides) -> tuple[Steps, Steps]:
    """Steps of the walk, and those after them, before the limit."""
    steps = np.asarray(sides.walk.state.step)[1:]
    fit = ~sides.walk.ended[:-1]
    if sides.limit is not None and not sides.sets_clock:
        fit = fit & (steps + 1 < sides.limit)
    return sides.walk.at(slice(-1)).at(fit), sides.walk.at(slice(1, None)).at(fit)


def _is_continuum(x: Any) -> bool:
    """Whether a leaf is floats that may have any value between others."""
    if not is_float(x.dtype):
        return False
    some = x[:MOST_VALUES].ravel()
    return bool(len(np.unique(some)) > len(some) / 2)


def _is_sure(sides: Sides, steps: Windows, expected: bool) -> np.ndarray:
    """Whether steps terminate, or not, with any key."""
    found = np.ones(len(steps.lengths), bool)
    for _ in range(REDRAWS):
        state = sides.environment.with_fresh_keys(steps.state)
        found &= _terminated(sides.environment.play(state, *steps[1:])) == expected
    return found


def _terminated(numbers: np.ndarray) -> np.ndarray:
    return numbers[:, 0, TERMINATED] > 0
