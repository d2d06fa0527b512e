"""Steps of a reference whose states can be read, and not set."""

import math
from typing import Any

import jax
import numpy as np

from envrax.testing.match.environment import REWARD, TERMINATED, Environment
from envrax.testing.match.numbers import columns, is_float, take
from envrax.testing.match.report import ALIKE, DIFFERS, EQUAL, OPEN, Case, Check
from envrax.testing.match.statistics import compare_one, grouped, one_sided
from envrax.testing.match.trials import ALPHA, JUMP, MOST_ROUNDED, NUDGES, SLACK, TRIALS, Sides

READ = 2000  # steps of a reference that can be read
READ_DRAWS = 63  # of ours, from each state
OWN = ("step", "done")  # fields that `extract` need not know


def check_read_states(sides: Sides) -> Check:
    """
    Steps of the reference from states that `extract` reads, and the states after them.

    From each state ours draws many results, among which the reference's must be one like others.
    """
    environment = sides.environment
    n = max(200, round(sides.share * READ))
    rows: list[tuple[Any, Any, np.ndarray, Any]] = []
    age = 0
    ended = True
    for _ in range(n):
        if ended:
            sides.reference.reset()
            age = 0
        state = sides.reference.state(sides.starts, age)
        action = environment.actions(state)
        numbers = sides.reference.step(take(action, 0))
        age += 1
        ended = bool(numbers[:REWARD].astype(bool).any())
        if np.isnan(numbers[TERMINATED]):
            said = f"the reference raised {sides.reference.refused}"
            case = Case(take(state, 0), take(action, 0), "terminated", 0.0, np.nan)
            return Check("read states", DIFFERS, said, case)
        rows.append((state, action, numbers[None], sides.reference.state(sides.starts, age)))
    state, action, numbers, after = jax.tree.map(lambda *x: np.concatenate(x), *rows)

    def asked(state: Any, action: Any, nudge: float = 0.0) -> np.ndarray:
        after, numbers = environment.step(state, action, nudge)
        return _joined(environment, numbers, after)

    theirs = _joined(environment, numbers, after)
    ours = asked(state, action)
    around = [asked(state, action, sides.precision.nudge) for _ in range(NUDGES)]
    with np.errstate(invalid="ignore"):
        moved = np.nan_to_num(np.max([abs(x - ours) for x in around], axis=0), nan=0.0)
    scale = np.maximum(np.nan_to_num(abs(ours), posinf=0.0).max(axis=0), 1e-3)
    units = np.zeros(ours.shape[1])
    units[: len(environment.names)] = sides.reference.precision
    own = jax.tree.map(lambda x: np.full(x.shape, is_float(x.dtype), float), after)
    units[len(environment.names) :] = _joined(environment, numbers[:, :0], own)[0] * 1e-7
    edges = (moved > np.where(units == 0, 0, JUMP * scale)).any(axis=1)
    tolerance = sides.precision.tolerance * scale + 2 * units * abs(ours) + SLACK * moved
    tolerance = np.where(units == 0, 0, np.nan_to_num(tolerance))[~edges]
    state, action, theirs, ours = take((state, action, theirs, ours), ~edges)
    many = np.repeat(np.arange(len(ours)), READ_DRAWS)
    drawn = asked(environment.with_fresh_keys(take(state, many)), take(action, many))
    names = [*environment.names, *(f"new {x}" for x in environment.columns(after, OWN))]
    features = {**columns({"action": action}, most=8), **environment.columns(state, ("done",))}
    samples = np.concatenate([drawn.reshape(len(ours), READ_DRAWS, -1), theirs[:, None]], axis=1)
    tested = compare_one(samples, tolerance, names, grouped(features))
    left_out = [f"{edges.sum()} of {n} where a rounding of the state changes the result"]
    left_out *= bool(edges.any())
    said = f"{len(ours)} steps of the reference, and {READ_DRAWS} draws of ours for each"
    if tested.log_p < math.log(ALPHA / TRIALS):
        i, at = tested.state, tested.column
        case = Case(
            take(state, i), take(action, i), names[at], samples[i, 0, at], samples[i, -1, at]
        )
        return Check("read states", DIFFERS, f"{said}; {tested.text}", case, left_out=(*left_out,))
    least = one_sided(tested, ALPHA / TRIALS, len(ours), READ_DRAWS + 1)
    power = f"a result that one side lacks, where share x chance is {least:.2g}"
    is_open = edges.mean() > MOST_ROUNDED
    verdict = OPEN if is_open else ALIKE if tested.differing else EQUAL
    return Check("read states", verdict, said, power=power, left_out=(*left_out,))


def _joined(environment: Environment, numbers: np.ndarray, states: Any) -> np.ndarray:
    """Numbers of steps, and those of the states after them."""
    found = environment.columns(states, OWN).values()
    return np.concatenate([numbers, *(x[:, None] for x in found)], axis=1)
