"""Two samples compared: by number, along random directions, and at their ends."""

import numpy as np

ALPHA = 1e-6  # the chance that equal distributions are told apart, in one call
DIRECTIONS = 16


def difference(
    names: list[str], ours: np.ndarray, theirs: np.ndarray, random: np.random.Generator
) -> tuple[str, str]:
    """
    How two samples differ, "" if they do not, and the chance of what was found in a few words.

    Tests of Kolmogorov and Smirnov by number and along random directions, and one-sided tests of
    how many values of one sample lie beyond all of the other.
    """
    tests: list[tuple[float, str]] = []
    for name, a, b in zip(names, ours.T, theirs.T, strict=False):
        gap, p = kolmogorov_smirnov(a, b)
        tests.append((p, f"{name}: the shares below a value differ by up to {gap:.2g}"))
        for x, y, who in ((a, b, "ours"), (b, a, "the reference's")):
            for side, sign in (("above", 1), ("below", -1)):
                beyond = int(np.sum(sign * x > np.max(sign * y)))
                p = (len(x) / (len(x) + len(y))) ** beyond
                tests.append((p, f"{name}: {beyond} of {who} are {side} all others"))
    spread = np.concatenate([ours, theirs]).std(axis=0)
    turns = random.normal(size=(DIRECTIONS, ours.shape[1])) / np.where(spread > 0, spread, np.inf)
    for turn in turns:
        gap, p = kolmogorov_smirnov(ours @ turn, theirs @ turn)
        tests.append((p, f"along a direction: the shares differ by up to {gap:.2g}"))
    p, said = min(tests)
    p = min(1.0, p * len(tests))
    return said * (p < ALPHA), f"p {p:.2g}"


def kolmogorov_smirnov(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """The largest difference of the shares below a value, and a bound of its chance."""
    values = np.concatenate([a, b])
    shares = [np.searchsorted(np.sort(x), values, side="right") / len(x) for x in (a, b)]
    gap = float(np.max(abs(shares[0] - shares[1])))
    n = len(a) * len(b) / (len(a) + len(b))
    return gap, min(1.0, 2 * float(np.exp(-2 * n * gap**2)))
