"""How much is compared, and to which precision."""

from typing import NamedTuple

MOST_ROUNDED = 0.01  # the share of steps that rounding may decide
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
    most_lost: float  # the share of pairs that rounding may decide

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
ONE_STEP = Sizes("one step", 1, 2000, 200, 200, N_STEPS, (20, 2000), MOST_ROUNDED)
WINDOWS = Sizes("windows", 8, 300, 30, 40, 3000, (8, 500), 0.2)
LONG_WINDOWS = Sizes("long windows", 64, 40, 30, 1, 750, (8, 60), 1.0)
