"""Steps of a reference whose states can be read, and not set."""

import math
from typing import Any

import jax
import numpy as np

from envrax.testing.match.environment import TERMINATED, Environment, ended
from envrax.testing.match.numbers import LEAST_SCALE, is_float, join, precision, size, stacked, take
from envrax.testing.match.report import ALIKE, DIFFERS, EQUAL, OPEN, Case, Check
from envrax.testing.match.sizes import FLOAT32, MOST_ROUNDED
from envrax.testing.match.statistics import compare, one_sided
from envrax.testing.match.trials import ALPHA, LOG_ALPHA, TRIALS, Sides, around, check_of

EPS = precision(np.float32)
READ = 2000  # steps of a reference that can be read
READ_DRAWS = 63  # of ours, from each state
OWN = ("step", "done")  # fields that `extract` need not know


def check_read_states(sides: Sides) -> Check:
    """
    Steps of the reference from states that `extract` reads, and the states after them.

    From each state ours draws some results, among which the reference's must be one like others.
    """
    environment = sides.environment
    state, action, numbers, after = _played(sides, max(200, round(sides.share * READ)))
    if np.isnan(numbers[-1, TERMINATED]):
        case = Case(take(state, -1), take(action, -1), "terminated", 0.0, math.nan)
        return Check("read states", DIFFERS, f"it raised {sides.reference.refused}", case)

    def step(nudge: float) -> np.ndarray:
        return _joined(environment, *environment.step(state, action, nudge))

    theirs = _joined(environment, after, numbers)
    digits = jax.tree.map(lambda x: np.full(x.shape, EPS * is_float(x.dtype)), after)
    own = np.broadcast_to(sides.reference.precision, numbers.shape)
    units = _joined(environment, digits, own)[0]
    scale = np.maximum(size(theirs).max(axis=0), LEAST_SCALE)
    ours, tolerance, edges = around(step, sides.precision, scale, units)
    tolerance = tolerance + 2 * units * size(ours)
    left_out = [f"{edges.sum()} of {len(edges)} where a rounding of the state changes the result"]
    left_out *= bool(edges.any())
    state, action, theirs, tolerance = take((state, action, theirs, tolerance), ~edges)
    many = take((state, action), np.repeat(np.arange(len(theirs)), READ_DRAWS))
    drawn = _joined(environment, *environment.step(environment.with_fresh_keys(many[0]), many[1]))
    drawn = drawn.reshape(len(theirs), READ_DRAWS, -1)
    names = [*environment.names, *(f"new {x}" for x in environment.columns(after, OWN))]
    groups = sides.groups(state, action)
    pairs = drawn[:, :1], theirs[:, None]
    tested = compare(*pairs, tolerance, names, groups, sides.random, drawn[:, 1:])
    said = f"{len(theirs)} steps of the reference, and {READ_DRAWS} draws of ours for each"
    if tested.log_p < LOG_ALPHA:
        i, at = tested.state, tested.column
        case = Case(take(state, i), take(action, i), names[at], drawn[i, 0, at], theirs[i, at])
        return Check("read states", DIFFERS, f"{said}; {tested.text}", case, left_out=(*left_out,))
    least = one_sided(tested, ALPHA / TRIALS, len(theirs), READ_DRAWS + 1)
    power = f"a result that one side lacks, where share x chance is {least:.2g}"
    is_open = edges.mean() > MOST_ROUNDED
    verdict = OPEN if is_open else ALIKE if tested.differing else EQUAL
    return Check("read states", verdict, said, power=power, left_out=(*left_out,))


def check_read_starts(sides: Sides) -> Check:
    """The distribution of first states, whose hidden numbers can be read."""
    environment = sides.environment
    found: list[Any] = []
    for _ in range(sides.n_resets):
        sides.reference.reset()
        found.append(sides.reference.state(sides.starts, 0))
    states = environment.reset(sides.n_resets)[1], join(found)
    names = [*environment.columns(states[0], OWN)]
    none = np.zeros((sides.n_resets, 0))
    ours, theirs = (_joined(environment, x, none)[None] for x in states)
    tolerance = FLOAT32.tolerance * abs(ours).max(axis=1)
    tested = compare(ours, theirs, tolerance, names, {}, sides.random)
    return check_of("read starts", f"{sides.n_resets} resets", tested, sides.n_resets, [])


def _played(sides: Sides, n: int) -> tuple[Any, Any, np.ndarray, Any]:
    """States, actions, numbers, and states after them, until the reference raises."""
    rows: list[Any] = []
    age = 0
    state: Any = None
    for _ in range(n):
        if age == 0:
            sides.reference.reset()
            state = sides.reference.state(sides.starts, age)
        action = sides.environment.actions(state)
        numbers = sides.reference.step(take(action, 0))
        age = 0 if ended(numbers) else age + 1
        after = sides.reference.state(sides.starts, age)
        rows.append((state, action, numbers[None], after))
        state = after
        if np.isnan(numbers[TERMINATED]):
            break
    return join(rows)


def _joined(environment: Environment, states: Any, numbers: np.ndarray) -> np.ndarray:
    """Numbers of steps, and those of the states after them."""
    hidden = stacked(environment.columns(states, OWN), len(numbers))
    return np.concatenate([numbers, hidden], axis=1)
