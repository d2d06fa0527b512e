"""Windows of steps of both sides: what is sampled in which order, and what is made of it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from envrax.testing.match.environment import PROBES, Environment
from envrax.testing.match.numbers import (
    Sketch,
    columns,
    count,
    is_constant,
    is_float,
    join,
    size,
    take,
    text,
)
from envrax.testing.match.reference import Reference
from envrax.testing.match.report import ALIKE, DIFFERS, EQUAL, OPEN, Case, Check
from envrax.testing.match.sizes import FEWEST_DRAWS, MOST_DRAWS, Precision, Sizes
from envrax.testing.match.statistics import PAIRED, Evidence, change, compare, grouped, one_sided
from envrax.testing.match.walk import Steps, extremes, spread

ALPHA = 1e-4  # the chance that tests tell apart what is the same, in one call
TRIALS = 16  # at most, among which it is shared
LOG_ALPHA = math.log(ALPHA / TRIALS)
NUDGES = 6
SLACK = 16  # a difference may be so many times that of nudged states
JUMP = 1e-3  # of the scale: a nudged state that moves so much lies on an edge
DIGITS = 2e-8  # relative, less than half a unit of float32
BLOCK = 10_000_000  # numbers of a block of windows


class Windows(NamedTuple):
    """First states, and lists of actions with axes (windows, steps)."""

    state: Any
    action: Any

    @property
    def first_action(self) -> Any:
        """The first action of each."""
        return take(self.action, (slice(None), 0))


def one_step(state: Any, action: Any) -> Windows:
    """Windows of one step."""
    return Windows(state, jax.tree.map(lambda x: x[:, None], action))


class Draws(NamedTuple):
    """
    Samples of both sides, with axes (windows, draws, steps, numbers), and the test of them.

    `edges` are windows that were left out, since rounding decides; in `cut` an action was illegal
    in some draws.
    """

    windows: Windows
    ours: np.ndarray
    theirs: np.ndarray
    names: list[str]
    tested: Evidence
    edges: int
    cut: int

    @property
    def differs(self) -> bool:
        """Whether the distributions differ."""
        return self.tested.log_p < LOG_ALPHA

    @property
    def size(self) -> int:
        """Draws of each side."""
        return self.ours.shape[0] * self.ours.shape[1]

    def case(self) -> Case:
        """The window that differs most, and its number that does."""
        one = self.tested.state
        ours, theirs = (x[one].reshape(len(x[one]), -1) for x in (self.ours, self.theirs))
        at = self.tested.column
        draws = len(ours)
        if is_constant(ours) and is_constant(theirs):  # there is no chance in it
            draws = 1
            with np.errstate(invalid="ignore"):
                gaps = np.nan_to_num(abs(ours[0] - theirs[0]), nan=np.inf)
            gaps[ours[0] == theirs[0]] = 0
            at = int(np.argmax(gaps / np.maximum(abs(ours[0]), 1e-3)))
        state, action = take(self.windows, one)
        action = take(action, 0) if self.ours.shape[2] == 1 else action
        means = float(ours[:, at].mean()), float(theirs[:, at].mean())
        return Case(state, action, self.names[at], *means, draws)


@dataclass
class Sides:
    """
    Both sides, what was visited, and what counts as rounding.

    Attributes
    ----------
    environment, reference
        Our side and theirs.
    walk : Steps
        A walk, with axes (steps, rows).
    visited : Steps
        The steps from which both are compared.
    starts : pytree
        States after resets.
    share : float
        The share of the usual draws.
    n_resets : int
        Resets of each side.
    precision : Precision
        That of the numbers.
    scale : np.ndarray
        The largest value of each number.
    sketch : Sketch
        What samples keep of the numbers.
    limit : int or None
        The step at which the clock ends our episodes; None if it was not found.
    sets_clock : bool
        Whether `inject` also sets the reference's clock.
    """

    environment: Environment
    reference: Reference
    walk: Steps
    visited: Steps
    starts: Any
    share: float
    n_resets: int
    precision: Precision
    scale: np.ndarray
    sketch: Sketch
    limit: int | None = None
    sets_clock: bool = False

    @property
    def random(self) -> np.random.Generator:
        """Draws everything."""
        return self.environment.random

    def before_limit(self, steps: Steps, length: int) -> tuple[Steps, list[str]]:
        """Those with as many steps to the limit, and a sentence on others."""
        if self.limit is None or self.sets_clock:
            return steps, []
        age = np.asarray(steps.state.step)
        fit = (age + length < self.limit) | (age == 0)  # the reference's clock begins at 0
        said = f"{(~fit).sum()} of {len(fit)} visited states, at the limit"
        return take(steps, fit), [] if fit.all() else [said]

    def rounding(self, numbers: np.ndarray) -> np.ndarray:
        """The rounding of dtypes."""
        return 2 * self.reference.precision * size(numbers)

    def usual_tolerance(self, largest: np.ndarray) -> np.ndarray:
        """How far numbers may be apart where states were not nudged; 0 for whole numbers."""
        exact = self.reference.precision == 0
        return np.where(exact, 0, self.precision.tolerance * self.scale) + self.rounding(largest)

    def nearby(
        self, windows: Windows, precision: Precision | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As `around`, for windows of steps."""
        play = partial(self.environment.play, *windows)
        return around(play, precision or self.precision, self.scale, self.reference.precision)

    def pairs(self, windows: Windows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """
        One run of each side: which windows differ, which rounding decides, our last numbers.

        Rounding decides where a nudge of the state changes the result.
        """

        def ask(block: Windows) -> tuple[np.ndarray, ...]:
            ours, tolerance, edges = self.nearby(block)
            _, theirs = self.reference.play(*block)
            ours, theirs, _ = legal(ours[:, None], theirs[:, None])
            close = _close(ours, theirs, (tolerance + self.rounding(ours[:, 0]))[:, None])
            return ~close & ~edges, ~close & edges, ours[:, 0, -1]

        differs, rounded, last = (x[:, 0] for x in self._sampled(ask, windows, 1))
        return differs, rounded, last

    def draw(self, windows: Windows, n_draws: int) -> Draws:
        """As many runs of each side from each window, without windows on an edge."""

        def ask_nearby(block: Windows) -> tuple[np.ndarray, ...]:
            _, tolerance, edges = self.nearby(block)
            return self.sketch.tolerance(tolerance), edges

        def ask_both(block: Windows) -> tuple[np.ndarray, ...]:
            both = self.environment.play(*block), self.reference.play(*block)[1]
            rounding = self.rounding(np.fmax(*map(abs, both)))
            return *map(self.sketch, both), self.sketch.tolerance(rounding)

        tolerance, on_edge = self._sampled(ask_nearby, windows, 4)
        ours, theirs, rounding = self._sampled(ask_both, windows, n_draws)
        fit = ~on_edge.any(axis=1)
        tolerance = tolerance.max(axis=1) + rounding.max(axis=1)
        windows, ours, theirs, tolerance = take((windows, ours, theirs, tolerance), fit)
        ours, theirs, illegal = legal(ours, theirs)
        n_steps = ours.shape[2]
        names = self.sketch.names
        if n_steps > 1:
            names = [f"{x} after {t + 1} steps" for t in range(n_steps) for x in names]
        groups = self.groups(windows.state, windows.first_action)
        a, b, tolerance = (x.reshape(*x.shape[:-2], len(names)) for x in (ours, theirs, tolerance))
        tested = compare(a, b, tolerance, names, groups, self.random)
        cut = int(illegal.any(axis=1).sum())
        return Draws(windows, ours, theirs, names, tested, int((~fit).sum()), cut)

    def _sampled(
        self, ask: Callable[[Windows], tuple[np.ndarray, ...]], windows: Windows, n_draws: int
    ) -> list[np.ndarray]:
        """Arrays that `ask` gives, a few windows at a time, with axes (windows, draws, ...)."""
        n_windows, n_steps = jax.tree.leaves(windows.action)[0].shape[:2]
        rows: np.ndarray = np.repeat(np.arange(n_windows), n_draws)
        n = max(1, BLOCK // (n_steps * len(self.environment.names) * (NUDGES + 2)))
        found: list[tuple[np.ndarray, ...]] = []
        for begin in range(0, len(rows), n):
            state, action = take(windows, rows[begin : begin + n])
            found.append(ask(Windows(self.environment.with_fresh_keys(state), action)))
        return [x.reshape(n_windows, n_draws, *x.shape[1:]) for x in join(found)]

    def groups(self, states: Any, actions: Any) -> dict[str, np.ndarray]:
        """States that are tested together, by their numbers and by the actions in them."""
        first = columns({"action": actions}, most=8)
        return grouped({**first, **self.environment.columns(states, ("done",))})


def around(
    play: Callable[[float], np.ndarray], precision: Precision, scale: np.ndarray, units: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Our numbers, how far theirs may be, and in which rows a nudge of the states changes the result.

    The rounding of dtypes comes on top.

    Parameters
    ----------
    play : callable
        From a relative error of each state to our numbers.
    precision : Precision
        How large the error is.
    scale, units : np.ndarray
        The largest value of each number, and the precision of its dtype; 0 if it is exact.
    """
    ours = play(0.0)
    nudged = np.stack([play(precision.nudge) for _ in range(NUDGES)])
    with np.errstate(invalid="ignore"):
        moved = np.nan_to_num(abs(nudged - ours).max(axis=0), nan=0.0, posinf=1e300)
    moved = np.where((np.isnan(nudged) != np.isnan(ours)).any(axis=0), 1e300, moved)
    edges: Any = moved > np.where(units == 0, 0, JUMP * scale)
    tolerance = np.where(units == 0, 0, precision.tolerance * scale + SLACK * moved)
    return ours, tolerance, edges.reshape(len(edges), -1).any(axis=1)


def legal(ours: np.ndarray, theirs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Draws with axes (windows, draws, steps, numbers), 0 where an action was illegal in one of them.

    Nothing is known of what comes after it. The last array says which steps of which windows.
    """
    illegal = np.any(np.isnan(ours[..., 0]), axis=1)
    is_left_out = np.expand_dims(illegal, (1, 3))
    return np.where(is_left_out, 0, ours), np.where(is_left_out, 0, theirs), illegal


def compare_windows(sides: Sides, sizes: Sizes) -> Check:
    """Windows of some steps from the same states, under the same actions."""
    length = sizes.length
    steps, left_out = sides.before_limit(sides.visited, length)
    steps = steps if length == 1 else take(steps, ~steps.ended)
    if not len(steps.numbers):
        return Check(sizes.name, OPEN, "no visited state is far enough from the limit")
    windows = _windows(sides, steps, extremes(sides.environment, steps, sizes.pairs), length)
    differs, rounded, ours = sides.pairs(windows)
    suspects = take(windows, np.flatnonzero(differs)[: sizes.suspects])
    others = _windows(sides, steps, spread(sides.environment, steps, sizes.spread), length)
    several = join([suspects, others])
    n_several = count(several)
    n_draws = sizes.draws // max(n_several, sizes.suspects)
    drawn = last = sides.draw(several, int(np.clip(n_draws, FEWEST_DRAWS, MOST_DRAWS)))
    if not drawn.differs and drawn.tested.differing:
        n, n_draws = sizes.worst
        worst = np.argsort(-drawn.tested.suspicion, kind="stable")[:n]
        last = sides.draw(take(drawn.windows, worst), n_draws)
    if last.differs:
        return difference(sides, sizes.name, last, windows, ours, differs)
    n = len(differs)
    said = f"{n} pairs" + f" of windows of up to {length} steps" * (length > 1)
    power: list[str] = []
    if differs.sum() <= n // 10:
        power.append(f"a difference without chance in {1 - 0.01 ** (1 / n):.2%} of visited states")
    if len(drawn.ours) > 1:
        said += f", and {drawn.size} draws from {len(drawn.ours)} states"
        power += powers(drawn.tested, drawn.size)
    lost = int(rounded.sum()) + drawn.edges
    if lost:
        of = n + n_several
        left_out.append(f"{lost} of {of} where a rounding of the state changes the result")
    if drawn.cut:
        left_out.append(f"{drawn.cut} windows from an action on that is illegal in some draws")
    is_open = rounded.mean() > sizes.most_lost
    is_open |= drawn.edges >= max(0.5, sizes.most_lost) * n_several
    has_chance = differs.any() or drawn.tested.differing
    verdict = OPEN if is_open else ALIKE if has_chance else EQUAL
    return Check(sizes.name, verdict, said, power="; ".join(power), left_out=(*left_out,))


def reacts(ask: Callable[[Any, Any], np.ndarray], states: Any, actions: Any) -> bool:
    """Whether results change with digits of states, and of actions, that float32 does not have."""

    def moved(tree: Any, size: float) -> Any:
        def move(x: Any) -> Any:
            return x.astype(np.float32).astype(x.dtype) * (1 + size) if _has_digits(x) else x

        return jax.tree.map(move, tree)

    states = moved(states, 0)
    found = ask(states, actions)
    for tree, other in (
        (states, (moved(states, DIGITS), actions)),
        (actions, (states, moved(actions, DIGITS))),
    ):
        has_digits = any(map(_has_digits, jax.tree.leaves(tree)))
        if has_digits and np.array_equal(found, ask(*other), equal_nan=True):
            return False
    return True


def _has_digits(x: Any) -> bool:
    return is_float(x.dtype) and bool(np.any(x != np.round(x)))


def _windows(sides: Sides, steps: Steps, rows: np.ndarray, length: int) -> Windows:
    """Windows from some visited steps; those of one step with the actions of the walk."""
    state, action, _ = take(steps, rows)
    if length == 1:
        return one_step(state, action)
    n_probes = PROBES if sides.environment.has_masks else 1
    probes = take(state, np.repeat(np.arange(len(rows)), n_probes))
    probes = sides.environment.with_fresh_keys(probes)
    return Windows(state, sides.environment.plan(probes, len(rows), length))


def difference(
    sides: Sides, name: str, draws: Draws, pairs: Windows, ours: np.ndarray, differs: np.ndarray
) -> Check:
    """What is said of draws that differ, and of the pairs before them."""
    said = f"{differs.sum()} of {len(differs)} pairs; in {draws.size} draws from "
    said += f"{len(draws.ours)} states the {draws.tested.text}"
    if np.isnan(draws.theirs[..., 0]).any():
        said += f"; the reference raised {sides.reference.refused}"
    case = draws.case()
    has_shared = draws.ours.shape[2] == 1 and case.draws == 1 and differs.any()
    shared = _shared(pairs, ours, differs, sides.environment) if has_shared else ""
    return Check(name, DIFFERS, said, case, shared)


def check_of(name: str, said: str, tested: Evidence, n: int, left_out: list[str]) -> Check:
    """What is said of samples of n draws that were tested."""
    if tested.log_p < LOG_ALPHA:
        return Check(name, DIFFERS, f"{said}; {tested.text}", left_out=(*left_out,))
    power = "; ".join(powers(tested, n))
    return Check(name, ALIKE, said, power=power, left_out=(*left_out,))


def powers(tested: Evidence, n: int) -> list[str]:
    """What tests of n draws find."""
    alpha = ALPHA / TRIALS
    least = one_sided(tested, alpha, n)
    lacks = f"a result that one side lacks, or that two of {PAIRED} numbers are equal or opposite"
    found = [f"{lacks}, where share x chance is {least:.2g}"]
    if tested.differing:
        by = change(tested, alpha, n)
        found.append(f"a chance that changes, where share x change is {by:.2g}")
        found.append("not stated: two numbers that depend on each other in another way")
    return found


def _close(ours: np.ndarray, theirs: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    """Which windows are the same, up to tolerances."""
    with np.errstate(invalid="ignore"):
        same = (abs(ours - theirs) <= tolerance) | (ours == theirs)
    return (same | (np.isnan(ours) & np.isnan(theirs))).all(axis=(1, 2, 3))


def _shared(
    windows: Windows, ours: np.ndarray, differs: np.ndarray, environment: Environment
) -> str:
    """
    What all differing steps have in common: a range of one number in which few others lie.

    Numbers of the state, of the action and of our results are tried.
    """
    if differs.all():
        return "they are all states that were tried"
    new = {f"the new {name}": x for name, x in zip(environment.names, ours.T, strict=True)}
    action = columns({"action": windows.first_action})
    best = (0.5, "")
    for name, x in {**new, **action, **environment.columns(windows.state)}.items():
        low, high = x[differs].min(), x[differs].max()
        others = float(np.mean((x[~differs] >= low) & (x[~differs] <= high)))
        extremes = {x.min(): ", its minimum", x.max(): ", its maximum"}
        said = f"from {text(low)} to {text(high)}"
        if low == high:
            said = text(low) + extremes.get(low, "")
        if others < best[0]:
            best = (others, f"{name} is {said}; so in {others:.1%} of the others")
    return best[1] if differs.sum() > 1 else ""
