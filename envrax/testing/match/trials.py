"""Windows of steps of both sides: what is sampled in which order, and what is made of it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from envrax.testing.match.environment import PROBES, Environment
from envrax.testing.match.numbers import Sketch, columns, is_constant, is_float, join, take, text
from envrax.testing.match.reference import Reference
from envrax.testing.match.report import ALIKE, DIFFERS, EQUAL, OPEN, Case, Check
from envrax.testing.match.statistics import NOTHING, Evidence, change, compare, grouped, one_sided
from envrax.testing.match.walk import Steps, extremes, spread

ALPHA = 1e-4  # the chance that tests tell apart what is the same, in one call
TRIALS = 16  # at most, among which it is shared
LOG_ALPHA = math.log(ALPHA / TRIALS)
NUDGES = 6
SLACK = 16  # a difference may be so many times that of nudged states
JUMP = 1e-3  # of the scale: a nudged state that moves so much lies on an edge
DIGITS = 2e-8  # relative, less than half a unit of float32
MOST_ROUNDED = 0.01  # the share of steps that rounding may decide
MOST_LOST = 0.2  # the share of windows that rounding may decide
BLOCK = 10_000_000  # numbers of a block of windows
FEWEST_DRAWS, MOST_DRAWS = 8, 5000  # from one state


class Precision(NamedTuple):
    """What counts as rounding, relative to the largest value of a number in the walk."""

    name: str
    tolerance: float
    nudge: float  # relative error of a state


FLOAT64 = Precision("float64", 1e-11, 1e-14)
FLOAT32 = Precision("float32", 1e-5, 1e-6)


class Sizes(NamedTuple):
    """How many windows of a length are compared, and with how many draws."""

    name: str
    length: int
    pairs: int
    suspects: int  # pairs that differ, which are drawn again
    spread: int  # windows that are drawn in any case
    draws: int  # of all of these together
    worst: tuple[int, int]  # windows that look most different, and draws of each

    def scaled(self, share: float, length: int) -> "Sizes":
        """With a share of the draws, and another length."""
        n, again = self.worst
        return self._replace(
            length=length,
            pairs=max(16, round(self.pairs * share)),
            draws=round(self.draws * share),
            worst=(n, max(FEWEST_DRAWS, round(again * share))),
        )


N_STEPS = 40_000
ONE_STEP = Sizes("one step", 1, 2000, 200, 200, N_STEPS, (20, 2000))
WINDOWS = Sizes("windows", 8, 300, 30, 40, 3000, (8, 500))
LONG_WINDOWS = Sizes("long windows", 64, 40, 30, 0, 750, (8, 60))


class Windows(NamedTuple):
    """First states, lists of actions, with axes (windows, steps), and how many are taken."""

    state: Any
    action: Any
    lengths: np.ndarray

    def at(self, index: Any) -> "Windows":
        """Some of them."""
        return Windows(*take(tuple(self), index))


class Draws(NamedTuple):
    """Samples of both sides, (windows, draws, numbers), their names, and the test of them."""

    windows: Windows
    ours: np.ndarray
    theirs: np.ndarray
    names: list[str]
    tested: Evidence
    edges: int
    cut: int = 0  # windows in which an action was illegal in some draws

    @property
    def differs(self) -> bool:
        """Whether the distributions differ."""
        return self.tested.log_p < LOG_ALPHA

    @property
    def size(self) -> int:
        """Draws of each side."""
        return self.ours.shape[0] * self.ours.shape[1]

    def worst(self, n: int) -> Windows:
        """The windows that look most different."""
        return self.windows.at(np.argsort(-self.tested.suspicion, kind="stable")[:n])

    def case(self) -> Case:
        """The window that differs most, and its number that does."""
        one = self.tested.state
        ours, theirs = self.ours[one], self.theirs[one]
        at = self.tested.column
        draws = len(ours)
        if is_constant(ours) and is_constant(theirs):  # there is no chance in it
            draws = 1
            with np.errstate(invalid="ignore"):
                gaps = np.nan_to_num(abs(ours[0] - theirs[0]), nan=np.inf)
            gaps[ours[0] == theirs[0]] = 0
            at = int(np.argmax(gaps / np.maximum(abs(ours[0]), 1e-3)))
        window = self.windows.at(one)
        is_step = len(jax.tree.leaves(window.action)[0]) == 1
        action = take(window.action, 0) if is_step else window.action
        means = float(ours[:, at].mean()), float(theirs[:, at].mean())
        return Case(window.state, action, self.names[at], *means, draws)


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

    def before_limit(self, length: int) -> tuple[Steps, int]:
        """Visited steps with as many steps to the limit, and how many others there are."""
        steps = np.asarray(self.visited.state.step)
        if self.limit is None or self.sets_clock:
            return self.visited, 0
        fit = (steps + length < self.limit) | (steps == 0)  # the reference's clock begins at 0
        return self.visited.at(fit), int((~fit).sum())

    def nearby(
        self, windows: Windows, precision: Precision | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As `around`, for windows of steps."""
        precision = precision or self.precision
        play = partial(self.environment.play, *windows)
        return around(play, precision, self.scale, self.reference.precision)

    def pairs(self, windows: Windows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """
        One run of each side: which windows differ, which rounding decides, our last numbers.

        Rounding decides where a nudge of the state changes the result.
        """

        def ask(block: Windows) -> tuple[np.ndarray, ...]:
            ours, tolerance, edges = self.nearby(block)
            _, theirs = self.reference.play(*block)
            units = 2 * self.reference.precision * np.nan_to_num(abs(ours), posinf=0.0)
            illegal = np.isnan(ours[:, :, :1])  # nothing is known of what comes after it
            differs = ~_close(np.where(illegal, theirs, ours), theirs, tolerance + units)
            return differs & ~edges, differs & edges, ours[:, -1]

        differs, rounded, last = (x[:, 0] for x in self._sampled(ask, windows, 1))
        return differs, rounded, last

    def draw(self, windows: Windows, n_draws: int) -> Draws:
        """As many runs of each side from each window, without windows on an edge."""

        def ask_nearby(block: Windows) -> tuple[np.ndarray, ...]:
            _, tolerance, edges = self.nearby(block)
            return self.sketch.tolerance(tolerance).reshape(len(tolerance), -1), edges

        def ask_both(block: Windows) -> tuple[np.ndarray, ...]:
            both = self.environment.play(*block), self.reference.play(*block)[1]
            return tuple(self.sketch(x).reshape(len(x), -1) for x in both)

        tolerance, on_edge = self._sampled(ask_nearby, windows, 4)
        edges: Any = on_edge.any(axis=1)
        windows = windows.at(~edges)
        n_steps = jax.tree.leaves(windows.action)[0].shape[1]
        names = _names(self.sketch.names, n_steps)
        if edges.all():
            nothing = np.zeros((0, n_draws, len(names)))
            return Draws(windows, nothing, nothing, names, NOTHING, len(edges))
        ours, theirs = self._sampled(ask_both, windows, n_draws)
        illegal = np.isnan(ours).any(axis=1, keepdims=True)
        if self.environment.has_masks:  # nothing is known of what comes after an illegal action
            ours, theirs = np.where(illegal, 0, ours), np.where(illegal, 0, theirs)
        largest = np.fmax(abs(ours).max(axis=1), abs(theirs).max(axis=1))
        rounding = self.sketch.rounding(self.reference.precision, self.scale, largest)
        tolerance = tolerance[~edges].max(axis=1) + rounding
        groups = self.groups(windows.state, jax.tree.map(lambda x: x[:, 0], windows.action))
        tested = compare(ours, theirs, tolerance, names, groups, self.random)
        cut = int(np.any(illegal, axis=2).sum()) * self.environment.has_masks
        return Draws(windows, ours, theirs, names, tested, int(edges.sum()), cut)

    def _sampled(
        self, ask: Callable[[Windows], tuple[np.ndarray, ...]], windows: Windows, n_draws: int
    ) -> list[np.ndarray]:
        """Arrays that `ask` gives, a few windows at a time, with axes (windows, draws, ...)."""
        rows = np.repeat(np.arange(len(windows.lengths)), n_draws)
        n_numbers = windows.lengths.max() * len(self.environment.names) * (NUDGES + 2)
        n = max(1, BLOCK // n_numbers)
        found: list[tuple[np.ndarray, ...]] = []
        for begin in range(0, len(rows), n):
            block = windows.at(rows[begin : begin + n])
            found.append(ask(block._replace(state=self.environment.with_fresh_keys(block.state))))
        shape = len(windows.lengths), n_draws
        joined = (np.concatenate(x) for x in zip(*found, strict=True))
        return [x.reshape(*shape, *x.shape[1:]) for x in joined]

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


def compare_windows(sides: Sides, sizes: Sizes) -> Check:
    """Windows of some steps from the same states, under the same actions."""
    is_step = sizes.length == 1
    steps, at_limit = sides.before_limit(sizes.length)
    steps = steps if is_step else steps.at(~steps.ended)
    left_out = [f"{at_limit} of {len(sides.visited.numbers)} visited states, at the limit"]
    left_out *= bool(at_limit)
    if not len(steps.numbers):
        return Check(sizes.name, OPEN, "no visited state is far enough from the limit")
    rows = extremes(sides.environment, steps, sizes.pairs)
    windows = _windows(sides, steps, rows, sizes.length)
    differs, rounded, ours = sides.pairs(windows)
    n = len(differs)
    is_random = differs.sum() > n // 10
    several = windows.at(np.flatnonzero(differs)[: sizes.suspects])
    if sizes.spread:
        rows = spread(sides.environment, steps, sizes.spread)
        others = _windows(sides, steps, rows, sizes.length)
        several = Windows(*join([tuple(several), tuple(others)]))
    drawn: Draws | None = None
    if len(several.lengths):
        n_draws = int(np.clip(sizes.draws // len(several.lengths), FEWEST_DRAWS, MOST_DRAWS))
        drawn = last = sides.draw(several, n_draws)
        if not drawn.differs and drawn.tested.differing:
            last = sides.draw(drawn.worst(sizes.worst[0]), sizes.worst[1])
        if last.differs:
            return difference(sides, sizes.name, last, windows, ours, differs)
    has_chance = bool(differs.any()) or (drawn is not None and drawn.tested.differing > 0)
    said = f"{n} pairs of windows of up to {sizes.length} steps" if not is_step else f"{n} pairs"
    power: list[str] = []
    if not is_random:
        power.append(f"a difference without chance in {1 - 0.01 ** (1 / n):.2%} of visited states")
    if drawn is not None and drawn.size:
        said += f", and {drawn.size} draws from {len(drawn.ours)} states"
        power += powers(drawn.tested, drawn.size)
    lost = int(rounded.sum()) + (drawn.edges if drawn is not None else 0)
    if lost:
        of = n + (len(drawn.ours) + drawn.edges if drawn is not None else 0)
        left_out.append(f"{lost} of {of} where a rounding of the state changes the result")
    if drawn is not None and drawn.cut:
        left_out.append(f"{drawn.cut} windows from an action on that is illegal in some draws")
    most = MOST_ROUNDED if is_step else MOST_LOST
    is_lost = drawn is not None and drawn.edges >= len(drawn.ours)
    is_open = rounded.sum() > most * n or is_lost
    found = OPEN if is_open and sizes.spread else ALIKE if has_chance else EQUAL
    return Check(sizes.name, found, said, power="; ".join(power), left_out=(*left_out,))


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
    chosen = steps.at(rows)
    if length == 1:
        action = jax.tree.map(lambda x: x[:, None], chosen.action)
        return Windows(chosen.state, action, np.ones(len(rows), int))
    probes = chosen.state
    if sides.environment.has_masks:
        probes = take(probes, np.repeat(np.arange(len(rows)), PROBES))
        probes = sides.environment.with_fresh_keys(probes)
    return Windows(chosen.state, *sides.environment.plan(probes, len(rows), length))


def difference(
    sides: Sides, name: str, draws: Draws, pairs: Windows, ours: np.ndarray, differs: np.ndarray
) -> Check:
    """What is said of draws that differ, and of the pairs before them."""
    said = f"{differs.sum()} of {len(differs)} pairs; in {draws.size} draws from "
    said += f"{len(draws.ours)} states the {draws.tested.text}"
    if np.isnan(draws.theirs[:, :, 0]).any():
        said += f"; the reference raised {sides.reference.refused}"
    case = draws.case()
    has_shared = pairs.lengths.max() == 1 and case.draws == 1 and differs.any()
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
    found = [f"a result that one side lacks, where share x chance is {least:.2g}"]
    if tested.differing:
        by = change(tested, alpha, n)
        found.append(f"a chance that changes, where share x change is {by:.2g}")
    return found


def _close(ours: np.ndarray, theirs: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    """Which windows are the same, up to tolerances."""
    with np.errstate(invalid="ignore"):
        same = (abs(ours - theirs) <= tolerance) | (ours == theirs)
    return (same | (np.isnan(ours) & np.isnan(theirs))).all(axis=(1, 2))


def _names(names: list[str], length: int) -> list[str]:
    if length == 1:
        return names
    return [f"{name} after {t + 1} steps" for t in range(length) for name in names]


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
    action = columns({"action": jax.tree.map(lambda x: x[:, 0], windows.action)})
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
