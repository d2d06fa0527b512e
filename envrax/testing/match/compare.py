"""Numbers of both sides compared: errors beyond rounding, cases on an edge, what cases share."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from envrax.testing.match.coverage import Steps
from envrax.testing.match.numbers import columns, is_continuous, text
from envrax.testing.match.report import Case
from envrax.testing.match.slots import WIDTH, Slots

MOST_NUDGED = 50  # cases; if more differ, it is not rounding

DIGITS = 2e-8  # relative, less than half a unit of float32


class Precision(NamedTuple):
    """What counts as rounding, relative to the largest value of a number in all cases."""

    name: str
    tolerance: float
    nudge: float  # relative error of a state
    edge: float  # of a threshold


FLOAT64 = Precision("float64", 1e-11, 1e-14, 1e-9)
FLOAT32 = Precision("float32", 1e-5, 1e-6, 1e-5)


def tells_float64(ask: Callable[[Any, Any], np.ndarray], states: Any, actions: Any) -> bool:
    """Whether results change with digits of states, and of actions, that float32 does not have."""

    def moved(tree: Any, size: float) -> Any:
        def move(x: Any) -> Any:
            return x.astype(np.float32).astype(x.dtype) * (1 + size) if is_continuous(x) else x

        return jax.tree.map(move, tree)

    def has_floats(tree: Any) -> bool:
        return any(is_continuous(x) for x in jax.tree.leaves(tree))

    states = moved(states, 0)
    found = ask(states, actions)
    others = [(moved(states, DIGITS), actions)] * has_floats(states)
    others += [(states, moved(actions, DIGITS))] * has_floats(actions)
    return not any(np.array_equal(found, ask(*other)) for other in others)


class Rounding(NamedTuple):
    """
    What counts as rounding between both sides.

    Attributes
    ----------
    slots : Slots
        Our side.
    units : np.ndarray
        `Reference.units`.
    precision : Precision
        That of the numbers.
    """

    slots: Slots
    units: np.ndarray
    precision: Precision

    def errors(self, ours: np.ndarray, theirs: np.ndarray, like: Any = None) -> np.ndarray:
        """
        By case and number the relative error that the last place of a float does not explain.

        It is infinite where an integer or a flag differs. The scale is the largest value of a
        number on both sides, of these cases or of those in `like`.
        """
        with np.errstate(invalid="ignore"):
            error = abs(ours - theirs)
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        largest = np.maximum(_finite(ours), _finite(theirs))
        scale = np.max([_finite(x).max(axis=0) for x in like or (ours, theirs)], axis=0)
        beyond = np.maximum(error - self.units * largest, 0) / np.maximum(scale, 1e-3)
        beyond = np.where((self.units == 0) | np.isnan(beyond), np.inf, beyond)
        return np.where(same, 0, beyond)

    def differing(self, steps: Steps, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        """Which cases differ, unless a state a rounding away gives the reference's numbers."""
        tolerance = self.precision.tolerance
        differs = self.errors(ours, theirs).max(axis=1) > tolerance
        if differs.sum() <= MOST_NUDGED:
            for i in np.flatnonzero(differs):
                near = steps.at(np.full(WIDTH, i))
                state = jax.tree.map(self._nudged, near.state)
                again = self.slots.ask(state, near.action)
                error = self.errors(again, theirs[np.full(WIDTH, i)], (ours, theirs))
                differs[i] = error.max(axis=1).min() > tolerance
        return differs

    def case(self, steps: Steps, ours: np.ndarray, theirs: np.ndarray, i: Any) -> Case:
        """A case, with the number that differs most."""
        at = int(np.argmax(self.errors(ours, theirs)[i]))
        one = steps.at(i)
        return Case(one.state, one.action, self.slots.names[at], ours[i, at], theirs[i, at])

    def _nudged(self, x: Any) -> Any:
        """Numbers a rounding away; whole ones are exact."""
        if x.dtype.kind != "f":
            return x
        size = cast(Any, self.precision.nudge * self.slots.random.uniform(-1, 1, x.shape))
        return cast(Any, np.where(x == np.round(x), x, x * (1 + size))).astype(x.dtype)


def shared(steps: Steps, new: dict[str, np.ndarray], differs: np.ndarray) -> str:
    """
    What all differing cases have in common: a range of one number in which few others lie.

    Numbers of the state, of the action and of our results are tried.
    """
    if differs.all():
        return "they are all states that were tried"
    numbers = {**new, **columns({"action": steps.action}), **columns(steps.state)}
    best = (0.5, "")
    for name, x in numbers.items():
        low, high = x[differs].min(), x[differs].max()
        others = float(np.mean((x[~differs] >= low) & (x[~differs] <= high)))
        extremes = {x.min(): ", its minimum", x.max(): ", its maximum"}
        said = f"from {text(low)} to {text(high)}"
        if low == high:
            said = text(low) + extremes.get(low, "")
        if others < best[0]:
            best = (others, f"{name} is {said}; so in {others:.1%} of the others")
    return best[1] if differs.sum() > 1 else ""


def _finite(x: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(x), abs(x), 0)
