"""Starts, and episodes from starts of each side."""

import math
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from envrax.testing.match.environment import PROBES, REWARD
from envrax.testing.match.numbers import Sketch, count, is_constant, take
from envrax.testing.match.report import OPEN, Check
from envrax.testing.match.statistics import Evidence, compare
from envrax.testing.match.trials import FLOAT32, LOG_ALPHA, Sides, Windows, check_of

MOST_FLIPS = 0.002  # the share of a list's episodes that rounding may decide
LISTS = 6  # of actions, for episodes
EPISODE = 32  # steps of an episode that is compared
LONG_EPISODE = 256  # where no state can be set
EPISODES = 0.075  # of a list, for each reset
MOST_OF_START = 1200  # numbers of a first observation that are tested
SOME = 200  # starts of each side, of which the numbers that vary most are kept
MORE = 5  # times as many, if the first look different


def check_starts(sides: Sides) -> Check:
    """The distribution of the first observations."""
    ours = sides.environment.reset(sides.n_resets)[0]
    theirs = np.stack([sides.reference.reset() for _ in range(sides.n_resets)])
    some = np.concatenate([ours[:SOME], theirs[:SOME]])
    sketch = Sketch(some, 0, sides.environment.names, sides.random, MOST_OF_START)
    ours, theirs = map(sketch, (ours, theirs))
    largest = np.nan_to_num(np.maximum(abs(ours), abs(theirs)), posinf=0).max(axis=0)
    scale = sketch.tolerance(sides.scale)
    units = sketch.tolerance(sides.reference.precision)
    tolerance = np.where(units > 0, sides.precision.tolerance * scale + 2 * units * largest, 0)
    both = ours[None], theirs[None]
    tested = compare(*both, tolerance[None], sketch.names, {}, sides.random, most=MOST_OF_START)
    said = f"{sides.n_resets} resets"
    if is_constant(theirs) and not is_constant(ours):
        said += "; the reference's are all the same: does each of its resets begin with one seed?"
    return check_of("starts", said, tested, sides.n_resets, [])


def check_episodes(sides: Sides) -> Check:
    """Episodes from starts of each side, under the same lists of actions."""
    longest = LONG_EPISODE if sides.reference.inject is None else EPISODE
    length = min(longest, sides.limit or longest)
    rows = sides.random.integers(count(sides.starts), size=LISTS * PROBES)
    actions, lengths = sides.environment.plan(take(sides.starts, rows), LISTS, length)
    lists = Windows(None, actions, lengths)
    left_out: list[str] = []
    draws = max(40, round(sides.n_resets * EPISODES))
    for n_draws in (draws, MORE * draws):
        episodes = [_episodes(sides, lists.at(slice(i, i + 1)), n_draws) for i in range(LISTS)]
        tested = _compared_episodes(sides, episodes, length)
        if tested.log_p > math.log(0.5):
            break
    legal = min(*lengths, *(x.legal for x in episodes))
    if legal < length:
        left_out.append(f"what follows {legal} steps, where an action is illegal in some episodes")
    if tested.log_p < LOG_ALPHA:
        episodes = [x for x in map(partial(_with_slack, sides), episodes) if x is not None]
        lost = LISTS - len(episodes)
        if lost:
            left_out.append(f"{lost} of {LISTS} lists of actions, where rounding decides")
        if lost > LISTS / 2:
            return Check("episodes", OPEN, "rounding decides", left_out=(*left_out,))
        tested = _compared_episodes(sides, episodes, length)
    said = f"{len(episodes)} lists of up to {length} actions, {n_draws} episodes each"
    return check_of("episodes", said, tested, len(episodes) * n_draws, left_out)


class _Episodes(NamedTuple):
    """Our windows under one list of actions, and summaries of both sides' episodes."""

    windows: Windows
    ours: np.ndarray
    theirs: np.ndarray
    legal: int  # steps that are legal in all episodes
    slack: Any = 0.0  # for each step and number what rounding may change


def _with_slack(sides: Sides, one: _Episodes) -> _Episodes | None:
    """The same, and what a rounding of the states changes; None if that are results."""
    _, tolerance, edges = sides.nearby(one.windows, FLOAT32)  # starts are float32
    if edges.mean() > MOST_FLIPS:
        return None
    return one._replace(slack=sides.sketch.tolerance(tolerance[~edges].max(axis=0)))


def _episodes(sides: Sides, one: Windows, n: int) -> _Episodes:
    """Episodes of each side under one list of actions."""
    _, actions, lengths = one.at(np.zeros(n, int))
    first, states = sides.environment.reset(n)
    windows = Windows(states, actions, lengths)
    numbers = sides.environment.play(*windows)
    their_first, theirs = sides.reference.play(None, actions, lengths)
    legal = numbers.shape[1]
    illegal = np.isnan(numbers[:, :, 0]).any(axis=0)
    if sides.environment.has_masks and illegal.any():  # nothing is known of what comes after
        legal = max(1, int(illegal.argmax()))
        numbers[:, legal:] = theirs[:, legal:] = 0
    ours = _summary(sides, sides.sketch(first), sides.sketch(numbers))
    theirs = _summary(sides, sides.sketch(their_first), sides.sketch(theirs))
    return _Episodes(windows, ours, theirs, legal)


def _compared_episodes(sides: Sides, episodes: list[_Episodes], length: int) -> Evidence:
    kept = sides.sketch.names
    names = ["return", "length"]
    names += [f"{x} in step {t + 1}, as a change" for t in _times(length) for x in kept]
    names += [f"{x} since the start, after {t + 1}" for t in _times(length) for x in kept]
    units = sides.reference.precision
    one = np.where(units > 0, 2 * (sides.precision.tolerance + 2 * units) * sides.scale, 0)
    tolerances: list[np.ndarray] = []
    for x in episodes:
        steps = sides.sketch.tolerance(one) + np.broadcast_to(x.slack, (length, len(kept)))
        ends = [steps[:, sides.environment.rewards].sum(), 0.0]
        steps = steps[_times(length)].ravel()
        tolerances.append(np.concatenate([ends, steps, steps]))
    ours = np.stack([x.ours for x in episodes])
    theirs = np.stack([x.theirs for x in episodes])
    return compare(ours, theirs, np.stack(tolerances), names, {}, sides.random)


def _summary(sides: Sides, first: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The return, the length, and changes of observations, which do not show the start itself."""
    n, length, _ = numbers.shape
    flags = (
        cast(Any, np.arange(first.shape[1])) < sides.environment.rewards.stop
    )  # and rewards: as they are
    before = np.concatenate([first[:, None], numbers[:, :-1]], axis=1)
    times = _times(length)
    with np.errstate(invalid="ignore"):
        steps = numbers[:, times] - np.where(flags, 0, before[:, times])
        since = numbers[:, times] - np.where(flags, 0, first)[:, None]
    ended = np.any(numbers[:, :, :REWARD].astype(bool), axis=2)
    lengths = length - ended.sum(axis=1) + np.any(ended, axis=1)
    returns = numbers[:, :, sides.environment.rewards].sum(axis=(1, 2))
    ends = np.stack([returns, lengths], axis=1)
    return np.concatenate([ends, steps.reshape(n, -1), since.reshape(n, -1)], axis=1)


def _times(length: int) -> list[int]:
    """Steps 1, 2, 4, 8, ... of an episode, counted from 0."""
    return [2**i - 1 for i in range(length.bit_length())]
