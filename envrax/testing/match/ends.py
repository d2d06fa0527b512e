"""Where episodes end: the limit by the clock, and the edges at which they terminate."""

from typing import Any

import jax
import numpy as np

from envrax.testing.match.environment import REWARD, TERMINATED, TRUNCATED, WIDTH, ended
from envrax.testing.match.numbers import count, finite, is_float, join, take
from envrax.testing.match.report import DIFFERS, EQUAL, OPEN, SKIPPED, Check
from envrax.testing.match.sizes import FLOAT64
from envrax.testing.match.trials import Sides, Windows, difference, one_step
from envrax.testing.match.walk import Steps

LONGEST = 20_000  # steps to the limit that are tried
TRIES = 100  # episodes of the reference that may terminate before the limit
STARTS = 32  # with which our limit is found
BISECTIONS = 60
MOST_VALUES = 5000  # of a leaf, that are looked at
DRAWS = 25  # of both sides, beside an edge where they differ
MOST_DRAWN = 20  # edges of those
MARGIN = 0.05  # of the way, beside an edge, where both sides must agree


def check_limit(sides: Sides) -> Check:
    """
    The step at which the clock ends an episode.

    The reference takes its steps from one state, which is put back before each. Ours takes one
    step for each time: either only `state.step` is a clock, or whatever changes by the same number
    in each step of the walk.
    """
    declared = getattr(getattr(sides.reference.raw, "spec", None), "max_episode_steps", None)
    limit: Any = sides.environment.env.config.max_steps
    most = min(max(limit if isinstance(limit, int) else LONGEST, declared or 0), LONGEST) + 1
    clocks = _clocks(sides)
    only_step = jax.tree.map(np.zeros_like, clocks).replace(step=np.ones(()))
    found = [(limits, x) for x in (only_step, clocks) if (limits := _our_limits(sides, x, most))]
    theirs, is_known = declared, declared is not None
    if sides.reference.inject is not None:
        theirs, is_known = _their_limit(sides, most)
        together = [limits[0] for limits, x in found if _ends_at(sides, x, limits[0])]
        if theirs is None and together:
            sides.limit = together[0]
            sides.sets_clock = True
            said = f"at step {sides.limit} on both sides; `inject` sets the clock"
            return Check("limit", EQUAL, said)
        theirs = theirs or declared
    ours = [limits for limits, _ in found]
    same = [limits for limits in ours if theirs in limits]
    sides.limit = next((limits[0] for limits in [*same, *ours]), None)
    later = f"later than {most - 1}"
    said = f"ours at step {sides.limit or later}, the reference's "
    if theirs is None and not is_known:
        verdict = SKIPPED if sides.reference.inject is None else OPEN
        return Check("limit", verdict, f"{said}was not found")
    is_same = bool(same) or (theirs is None and not ours)
    return Check("limit", EQUAL if is_same else DIFFERS, f"{said}at step {theirs or later}")


def check_ends(sides: Sides) -> Check:
    """
    The edges at which episodes terminate, found by bisection between two states of the walk.

    The states are mixed one step before, so that our step makes what it derives from them.
    """
    if sides.reference.inject is None:
        return Check("ends", SKIPPED, "thresholds are looked for only with `inject`")
    steps, last = _consecutive(sides)
    mixes = jax.tree.map(_is_continuum, steps.state)
    some = last.terminated.any() and not last.terminated.all()
    if not any(jax.tree.leaves(mixes)) or not some:
        why = "no step terminates, or no number of the state is a float"
        return Check("ends", SKIPPED, f"there is no threshold, as {why}; `one step` compares ends")
    running, ending = (
        np.resize(sides.random.permutation(np.flatnonzero(which)), WIDTH)
        for which in (~last.terminated, last.terminated)
    )
    action = take(last.action, ending)

    def between(share: np.ndarray) -> tuple[Windows, np.ndarray, np.ndarray]:
        """Steps from states a share of the way; which are running; which steps terminate."""

        def mix(x: Any, is_mixed: bool) -> Any:
            weight = share.reshape(-1, *[1] * (x.ndim - 1))
            a, b = x[running], x[ending]
            return (a + weight * (b - a)).astype(x.dtype) if is_mixed else b

        state = jax.tree.map(mix, steps.state, mixes)
        state, numbers = sides.environment.step(state, take(steps.action, ending))
        windows = one_step(state, action)
        return windows, ~ended(numbers), sides.environment.play(*windows)[:, 0, TERMINATED] > 0

    low = np.zeros(WIDTH)
    high = np.ones(WIDTH)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        ends = between(middle)[2]
        low = np.where(ends, low, middle)
        high = np.where(ends, middle, high)
    found = np.ones(WIDTH, bool)
    for share in (low - MARGIN, high + MARGIN):  # is a state between two visited ones a legal one?
        windows, are_running, _ = between(np.clip(share, 0, 1))
        differs, rounded, _ = sides.pairs(windows)
        found &= are_running & ~differs & ~rounded
    edge = 1e-9 if sides.precision is FLOAT64 else 1e-5
    before, is_running, early = between(low - edge)
    behind, are_running, late = between(high + edge)
    found &= is_running & are_running & ~early & late
    if not found.any():
        return Check("ends", SKIPPED, "no threshold was found beside which both sides agree")
    said = f"{found.sum()} thresholds, to {edge:g} of the way between two states"
    windows = take(join([before, behind]), np.tile(found, 2))
    differs, _, ours = sides.pairs(windows)
    if differs.any():
        drawn = sides.draw(take(windows, np.flatnonzero(differs)[:MOST_DRAWN]), DRAWS)
        if drawn.differs:
            return difference(sides, "ends", drawn, windows, ours, differs)
    return Check("ends", EQUAL, said)


def _clocks(sides: Sides) -> Any:
    """For each number of the state by how much every step of the walk changes it, else 0."""
    goes_on = ~sides.walk.ended[:-1]

    def change(x: Any) -> Any:
        if x.dtype == bool or not goes_on.any():
            return np.zeros(x.shape[2:])
        moved: Any = np.diff(finite(x), axis=0)[goes_on]
        is_clock = (abs(moved - moved[0]) <= 1e-4 * abs(moved[0])).all(axis=0)
        return np.where(is_clock, moved[0], 0)

    return jax.tree.map(change, sides.walk.state).replace(step=np.ones(()))


def _at_times(sides: Sides, moves: Any, times: np.ndarray) -> Any:
    """The first of `starts`, each at some times after it: only clocks have gone on."""

    def move(x: Any, change: Any) -> Any:
        passed = np.tile(times, STARTS).reshape(-1, *[1] * (x.ndim - 1))
        return (x + passed * change).astype(x.dtype) if change.any() else x

    rows = np.repeat(np.arange(STARTS) % count(sides.starts), len(times))
    return jax.tree.map(move, take(sides.starts, rows), moves)


def _our_limits(sides: Sides, moves: Any, most: int) -> list[int]:
    """The first step that ends all of some episodes; then steps that a rounding makes of it."""
    first = take(sides.starts, np.arange(STARTS) % count(sides.starts))
    actions = sides.environment.actions(first)

    def over(times: np.ndarray, nudge: float = 0.0) -> np.ndarray:
        states = _at_times(sides, moves, times)
        action = take(actions, np.repeat(np.arange(STARTS), len(times)))
        numbers = sides.environment.step(states, action, nudge)[1]
        return (numbers[:, :REWARD] > 0).any(axis=1).reshape(STARTS, -1)  # NaN is an illegal action

    n = WIDTH // STARTS
    for begin in range(0, most, n):
        times = np.arange(begin, begin + n)
        all_ended = over(times).all(axis=0)
        if all_ended.any():
            limit = int(times[all_ended.argmax()]) + 1
            around = np.array([max(limit - 2, 0), limit - 1])
            moved = over(around) != over(around, sides.precision.nudge)
            others = zip((limit - 1, limit + 1), moved.any(axis=0), strict=True)
            return [limit, *(other for other, is_near in others if is_near)]
    return []


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


def _ends_at(sides: Sides, moves: Any, limit: int) -> bool:
    """Whether the reference, put before our limit, ends as well, and put a step earlier not."""
    action = sides.environment.actions(_at_times(sides, moves, np.zeros(1)))

    def over(time: int) -> bool:
        windows = one_step(_at_times(sides, moves, np.array([time])), action)
        return bool(ended(sides.reference.play(*windows)[1]).all())

    return over(limit - 1) and (limit == 1 or not over(limit - 2))


def _is_continuum(x: Any) -> bool:
    """Whether a leaf is floats that may have any value between others."""
    if not is_float(x.dtype):
        return False
    some = x[:MOST_VALUES].ravel()
    return bool(len(np.unique(some)) > len(some) / 2)


def _consecutive(sides: Sides) -> tuple[Steps, Steps]:
    """Steps of the walk, and those after them, before the limit."""
    fit = ~sides.walk.ended[:-1]
    if sides.limit is not None and not sides.sets_clock:
        fit &= np.asarray(sides.walk.state.step)[1:] + 1 < sides.limit
    first: Steps = jax.tree.map(lambda x: x[:-1][fit], sides.walk)
    second: Steps = jax.tree.map(lambda x: x[1:][fit], sides.walk)
    return first, second
