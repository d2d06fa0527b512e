"""
Whether two samples have one distribution: tests that hold for any distribution, in NumPy.

Samples have axes (states, draws, numbers), with as many draws on both sides. Numbers count by their
ranks among the draws of both sides from a state; those closer than a tolerance share a rank. Sums
and differences of two numbers are numbers too: they show what the two have to do with each other.
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple, cast

import numpy as np

MOST_TESTED = 64  # numbers: those that vary in most states
PAIRED = 8  # of those, that are added to and subtracted from each other
GRID = 3e-7  # of the range of a number: draws so close are equal; those of float32 are 1e-7 apart
DIRECTIONS = 8
COMMONEST = 16  # outcomes of a state
MOST_VALUES = 32  # of a number, to group states by its values
FEWEST = 4  # states of a group
WIDE = 1.5  # an outlier is so many times further out than 5 % and 95 % are apart
Z99 = 2.33  # a normal number lies below with a chance of 99 %


class Evidence(NamedTuple):
    """
    The most significant of many tests.

    Attributes
    ----------
    log_p : float
        Logarithm of its p, times the number of tests.
    text : str
        What it compares, and what it found.
    state, column : int
        Where the difference is largest: a state, and a number.
    suspicion : np.ndarray
        For each state how far its draws are apart, in standard deviations.
    tests, differing : int
        The number of tests, and of pairs of draws that differ.
    """

    log_p: float
    text: str
    state: int
    column: int
    suspicion: np.ndarray
    tests: int
    differing: int


NOTHING = Evidence(0.0, "", 0, 0, np.zeros(0), 1, 0)  # of no samples


class _Scores(NamedTuple):
    """Scores of draws, (states, draws, scores): the number that each is of, and what it says."""

    values: np.ndarray
    columns: np.ndarray
    says: list[str]
    is_share: np.ndarray  # whether a score is 0 or 1


def compare(
    ours: np.ndarray,
    theirs: np.ndarray,
    tolerance: np.ndarray,
    names: list[str],
    groups: dict[str, np.ndarray],
    random: np.random.Generator,
    others: np.ndarray | None = None,
    most: int = MOST_TESTED,
) -> Evidence:
    """
    Compare two samples.

    Parameters
    ----------
    ours, theirs : np.ndarray
        With axes (states, draws, numbers).
    tolerance : np.ndarray
        With axes (states, numbers).
    names : list of str
        Names of the numbers.
    groups : dict
        Masks of states that are tested together, by what they have in common.
    random : np.random.Generator
        Draws directions, along which numbers are compared together.
    others : np.ndarray, optional
        More draws of ours from the same states. Then there is one pair, and the question is whether
        the draw of theirs is one like all others; it may decide the state of the next.
    most : int, default 64
        The most numbers that are tested.
    """
    n_draws = ours.shape[1]
    both = np.concatenate([ours, theirs] if others is None else [ours, theirs, others], axis=1)
    groups = {"": np.ones(len(both), bool), **groups}
    is_one = others is not None
    varied = _varied(both, tolerance)[:most]
    if not len(varied):
        return NOTHING._replace(suspicion=np.zeros(len(both)))
    families, suspicion, differing = _families(
        both, tolerance, names, varied, n_draws, groups, random, is_one
    )
    paired = [*combinations(np.sort(varied[:PAIRED]), 2)]
    if paired:
        i, j = np.transpose(paired)
        one, other = both[:, :, i], both[:, :, j]
        with np.errstate(invalid="ignore"):  # of infinite ones
            pairs = np.concatenate([one - other, one + other], axis=2)
        around = np.tile(tolerance[:, i] + tolerance[:, j], 2)
        said = [f"{names[a]} {sign} {names[b]}" for sign in "-+" for a, b in paired]
        every, of_first = np.arange(len(said)), np.tile(i, 2)
        of_pairs, of_states, _ = _families(
            pairs, around, said, every, n_draws, groups, random, is_one
        )
        families += [(*x[:3], int(of_first[x[3]]), x[4]) for x in of_pairs]
        suspicion = np.maximum(suspicion, of_states)
    tests = sum(n for *_, n in families)
    log_p, text, state, column, _ = min(families)
    state = int(suspicion.argmax()) if state < 0 else state
    return Evidence(
        min(0.0, log_p + math.log(tests)), text, state, column, suspicion, tests, differing
    )


def _varied(x: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    """The numbers that vary, those that vary in most states first."""
    with np.errstate(invalid="ignore"):
        often = (~(np.ptp(x, axis=1) <= tolerance)).sum(axis=0)
    return np.argsort(-often, kind="stable")[: np.count_nonzero(often)]


def _families(
    both: np.ndarray,
    tolerance: np.ndarray,
    names: list[str],
    kept: np.ndarray,
    n_draws: int,
    groups: dict[str, np.ndarray],
    random: np.random.Generator,
    is_one: bool,
) -> tuple[list["Family"], np.ndarray, int]:
    """
    All tests of some numbers, how far the draws of each state are apart, and pairs that differ.

    Joint outcomes are those of all numbers; what is tested by itself are the `kept` ones.
    """
    n_states = len(both)
    ranks = mid_ranks(both, tolerance)
    turns = random.normal(size=(both.shape[2], DIRECTIONS))
    along = mid_ranks((ranks - 0.5) @ turns, np.full((n_states, DIRECTIONS), 1e-9))
    common, differing = _outcomes(ranks, n_draws)
    some, around = both[:, :, kept], tolerance[:, kept]
    with np.errstate(invalid="ignore"):
        near = np.fmax(around, GRID * np.ptp(some, axis=1))
    far, zero, tied = _outliers(some, around), abs(some) <= near[:, None], _tied(some, near)
    ranks = np.concatenate([ranks[:, :, kept], along], axis=2)
    columns = np.concatenate([kept, np.full(DIRECTIONS, kept[0])])
    labels: list[str] = [*(names[i] for i in kept), *["all numbers along a direction"] * DIRECTIONS]
    shares = np.concatenate([far, zero, tied, common], axis=2)
    scores = _Scores(
        np.concatenate([ranks, np.square(2 * ranks - 1), shares], axis=2, dtype=np.float32),
        np.concatenate([columns, columns, kept, kept, kept, np.full(COMMONEST, kept[0])]),
        [
            *(f"mean rank of {x}" for x in labels),
            *(f"mean squared rank of {x}" for x in labels),
            *(f"share of outliers of {names[i]}" for i in kept),
            *(f"share of zeros of {names[i]}" for i in kept),
            *(f"share of repeated values of {names[i]}" for i in kept),
            *(f"share of the result that comes {_ordinal(i)}" for i in range(COMMONEST)),
        ],
        np.arange(2 * len(labels) + shares.shape[2]) >= 2 * len(labels),
    )
    if is_one:
        total = scores.values[:, 1] - scores.values.mean(axis=1)
        variance = scores.values.var(axis=1)
        families = [_pooled(scores, total, variance, groups, n_draws, log_freedman)]
        return families, abs(total).max(axis=1), differing
    gaps = scores.values[:, :n_draws] - scores.values[:, n_draws:]
    total = gaps.sum(axis=1, dtype=np.float64)
    squares = np.square(gaps).sum(axis=1, dtype=np.float64)
    apart = abs(total) / np.sqrt(np.maximum(squares, 1e-12))
    bound: Any = partial(log_sign_flips, is_share=scores.is_share)
    families = [
        _pooled(scores, total, squares, groups, n_draws, bound),
        _learned(gaps, scores),
        _by_state(scores, bound(total, squares), n_draws),
        _by_distribution(ranks, n_draws, labels, columns),
    ]
    return families, apart.max(axis=1), differing


def mid_ranks(x: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    """Ranks from 0 to 1 along the axis of draws; equal ones, and those close by, share theirs."""
    n = x.shape[1]
    order = np.argsort(x, axis=1, kind="stable")
    ordered = np.take_along_axis(x, order, axis=1)
    with np.errstate(invalid="ignore"):
        new = np.diff(ordered, axis=1) > tolerance[:, None]
    new |= np.isnan(ordered[:, 1:]) & ~np.isnan(ordered[:, :-1])
    edge = np.ones_like(new[:, :1])
    places = cast(Any, np.arange(n))[None, :, None]
    first = np.maximum.accumulate(np.where(np.concatenate([edge, new], axis=1), places, 0), axis=1)
    ends = cast(Any, np.where(np.concatenate([new, edge], axis=1), places, n))
    last = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
    found = np.empty(x.shape)
    np.put_along_axis(found, order, (first + last) / (2 * (n - 1)), axis=1)
    return found


def grouped(features: dict[str, np.ndarray], most: int = 40) -> dict[str, np.ndarray]:
    """Masks of states by their numbers: each value of a few, else the upper half and both ends."""
    found: dict[str, np.ndarray] = {}
    varied = {name: x for name, x in features.items() if np.any(x != x[:1])}
    for name, x in [*varied.items()][:most]:
        values = np.unique(x)
        if len(values) <= MOST_VALUES:
            found.update({f"{name} is {value:.6g}": x == value for value in values})
        else:
            low, middle, high = np.quantile(x, [0.1, 0.5, 0.9])
            found[f"{name} is below {low:.4g}"] = x < low
            found[f"{name} is above {middle:.4g}"] = x > middle
            found[f"{name} is above {high:.4g}"] = x > high
    return {name: mask for name, mask in found.items() if FEWEST <= mask.sum() < len(mask)}


def one_sided(tested: Evidence, alpha: float, n: int, odds: int = 2) -> float:
    """
    The chance, in n draws, of a result that one side lacks, which is found with 99 %.

    Each such result is evidence of 1 in `odds`.
    """
    events = math.log(2 * tested.tests / alpha) / math.log(odds)
    return ((Z99 + math.sqrt(Z99**2 + 4 * events)) / 2) ** 2 / n


def change(tested: Evidence, alpha: float, n: int) -> float:
    """The change of the chance of a result, in n draws, that is found with 99 %."""
    needed = math.sqrt(2 * math.log(2 * tested.tests / alpha)) + Z99
    return needed * math.sqrt(tested.differing) / n


def log_sign_flips(total: np.ndarray, squares: np.ndarray, is_share: np.ndarray) -> np.ndarray:
    """
    Bound of the chance of a sum of differences as large, if each could have either sign.

    It is Hoeffding's; for differences of -1, 0 and 1 it is one of the binomial distribution: a term
    and the geometric series that lies above those after it.
    """
    n = np.rint(squares).astype(int)
    k = np.minimum(np.ceil((n + abs(total)) / 2).astype(int), n)
    factorials = np.concatenate([[0], np.cumsum(np.log(np.arange(1, n.max() + 1)))])
    binomial = factorials[n] - factorials[k] - factorials[n - k] - n * math.log(2)
    binomial = binomial + np.log((k + 1) / (2 * k + 1 - n))
    hoeffding = -(total**2) / (2 * np.maximum(squares, 1e-12))
    return np.minimum(0, math.log(2) + np.where(is_share, binomial, hoeffding))


def log_freedman(total: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """
    Bound of the chance of a sum as large, of terms of at most 1 whose means are 0, given the past.

    It is Freedman's; 20 pays for both signs, and for a variance that was not known before.
    """
    variance = np.maximum(variance, 1e-12)
    ratio = abs(total) / variance
    exponent = variance * ((1 + ratio) * np.log1p(ratio) - ratio)
    return np.minimum(0, math.log(20) - exponent)


Family = tuple[float, str, int, int, int]  # log p, text, state, column, number of tests


def _pooled(
    scores: _Scores,
    total: np.ndarray,
    squares: np.ndarray,
    groups: dict[str, np.ndarray],
    n_draws: int,
    bound: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Family:
    """Scores of all states together, and of each group of them."""
    masks = np.array([*groups.values()], np.float64)
    log_p = bound(masks @ total, masks @ squares)
    group, score = np.unravel_index(np.argmin(log_p), log_p.shape)
    name, mask = [*groups.items()][group]
    apart = np.where(mask, abs(total[:, score]) / np.sqrt(squares[:, score] + 1e-12), -1)
    text = _means(scores, mask, int(score), n_draws) + f", where {name}" * bool(name)
    best = float(log_p[group, score])
    return best, text, int(apart.argmax()), int(scores.columns[score]), log_p.size


def _learned(gaps: np.ndarray, scores: _Scores) -> Family:
    """
    Differences with another sign in each state: learned from half of the draws, tested on others.
    """
    half = gaps.shape[1] // 2
    weights = gaps[:, :half].sum(axis=1)
    tested = gaps[:, half:]
    total = (weights * tested.sum(axis=1)).sum(axis=0, dtype=np.float64)
    squares = (weights**2 * np.square(tested).sum(axis=1)).sum(axis=0, dtype=np.float64)
    together = np.einsum("smk,sk->sm", tested[..., -COMMONEST:], weights[:, -COMMONEST:])
    total = np.append(total, together.sum(dtype=np.float64))
    squares = np.append(squares, np.square(together).sum(dtype=np.float64))
    log_p = log_sign_flips(total, squares, np.zeros(len(total), bool))
    best = int(np.argmin(log_p))
    says = [*scores.says, "share of each result"][best]
    text = f"{says} differs, in some states up and in others down"
    column = int([*scores.columns, scores.columns[-1]][best])
    return float(log_p[best]), text, -1, column, log_p.size


def _means(scores: _Scores, states: Any, score: int, n_draws: int) -> str:
    values = scores.values[states][:, :, score]
    ours, theirs = float(values[:, :n_draws].mean()), float(values[:, n_draws : 2 * n_draws].mean())
    return f"{scores.says[score]} is {ours:.3g} here, {theirs:.3g} there"


def _by_state(scores: _Scores, log_p: np.ndarray, n_draws: int) -> Family:
    """Each score in each state."""
    state, score = np.unravel_index(np.argmin(log_p), log_p.shape)
    text = f"{_means(scores, [state], int(score), n_draws)}, in one state"
    return float(log_p[state, score]), text, int(state), int(scores.columns[score]), log_p.size


def _by_distribution(
    ranks: np.ndarray, n_draws: int, labels: list[str], columns: np.ndarray
) -> Family:
    """
    The distribution of each number in each state.

    Two tests: that of Kolmogorov and Smirnov, and how many draws of one side lie above, or below,
    all of the other's.
    """
    order = np.argsort(ranks, axis=1, kind="stable")
    ordered = np.take_along_axis(ranks, order, axis=1)
    ends = np.concatenate([np.diff(ordered, axis=1) > 0, np.ones_like(ordered[:, :1], bool)], 1)
    ahead = abs(np.cumsum(np.where(order < n_draws, 1, -1), axis=1)) * ends
    below = cast(Any, np.arange(1, 2 * n_draws + 1))[None, :, None]
    of_one_side = (ahead == below) | (ahead == 2 * n_draws - below)
    most = ahead.max(axis=1)
    beyond = (ahead * of_one_side).max(axis=1)
    log_p = np.minimum(np.minimum(1 - most**2 / n_draws, -math.log(2) * beyond), 0)
    state, i = np.unravel_index(np.argmin(log_p), log_p.shape)
    text = f"shares of {labels[i]} below a value differ by up to {most[state, i] / n_draws:.2g}"
    text += f", and {beyond[state, i]} draws of one side lie beyond the other's"
    return float(log_p[state, i]), text, int(state), int(columns[i]), 5 * log_p.size


def _outcomes(ranks: np.ndarray, pairs: int) -> tuple[np.ndarray, int]:
    """For each draw which of its state's commonest results it is, and how many pairs differ."""
    n_states, n, n_numbers = ranks.shape
    weights = cast(Any, np.random.default_rng(0).integers(2**62, size=n_numbers, dtype=np.int64))
    hashes = np.rint(ranks * (2 * (n - 1))).astype(np.int64) @ weights
    found = np.zeros((n_states, n, COMMONEST), np.float32)
    for state, row in enumerate(hashes):
        _, inverse, counts = cast(Any, np.unique(row, return_inverse=True, return_counts=True))
        for place, outcome in enumerate(np.argsort(-counts, kind="stable")[:COMMONEST]):
            found[state, :, place] = inverse == outcome
    return found, int((hashes[:, :pairs] != hashes[:, pairs : 2 * pairs]).sum())


def _tied(x: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    """Draws that are equal to another one from the state."""
    order = np.argsort(x, axis=1, kind="stable")
    with np.errstate(invalid="ignore"):
        near = np.diff(np.take_along_axis(x, order, axis=1), axis=1) <= tolerance[:, None]
    edge = np.zeros_like(near[:, :1])
    tied = np.concatenate([edge, near], axis=1) | np.concatenate([near, edge], axis=1)
    found = np.empty(x.shape, bool)
    np.put_along_axis(found, order, tied, axis=1)
    return found


def _outliers(x: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    """Draws far from where most of both sides' draws from the state lie."""
    n = x.shape[1]
    ordered = np.sort(x, axis=1)
    low, middle, high = (ordered[:, i, None] for i in (n // 20, n // 2, n - 1 - n // 20))
    with np.errstate(invalid="ignore"):
        return ~(abs(x - middle) <= WIDE * (high - low) + tolerance[:, None])


def _ordinal(i: int) -> str:
    return {0: "most often", 1: "second", 2: "third"}.get(i, f"{i + 1}th")
