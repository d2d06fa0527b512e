"""`Match`, the result of `match_env`: checks, each with a verdict and the first differing case."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from envrax._jax.types import named_leaves
from envrax.testing.match.numbers import is_bits, text

EQUAL, ALIKE, DIFFERS, SKIPPED = "equal", "alike", "differs", "skipped"
MOST_LEAVES = 16  # of a state, that are printed


class Case(NamedTuple):
    """
    A step whose results differ. `str(case)` is one line.

    Attributes
    ----------
    state, action : pytree of np.ndarray
        The state before the step, as `inject` gets it, and the action.
    field : str
        The number that differs most, such as "obs[1]".
    ours, theirs : float
        Its value in the environment, and in the reference.
    """

    state: Any
    action: Any
    field: str
    ours: float
    theirs: float

    def __str__(self) -> str:
        state = {k: x for k, x in named_leaves(self.state).items() if not is_bits(x)}
        shown = [f"{k}={text(x)}" for k, x in state.items()][:MOST_LEAVES]
        shown += ["..."] * (len(state) > MOST_LEAVES)
        shown += [f"{k}={text(x)}" for k, x in named_leaves({"action": self.action}).items()]
        before = ", ".join(shown)
        return f"{self.field} is {text(self.ours)}, not {text(self.theirs)}, after {before}"


@dataclass(frozen=True)
class Check:
    """
    One thing that was compared.

    Attributes
    ----------
    name : str
        "spaces", "one step", "open loop", "limit", "starts", "ends" or "transfer".
    verdict : str
        "equal"; "alike" for samples that no test tells apart; "differs"; "skipped".
    text : str
        What was compared, or the difference, or why the check was skipped.
    case : Case or None
        The first case that differs.
    shared : str
        What all differing states have in common; may be empty.
    """

    name: str
    verdict: str
    text: str
    case: Case | None = None
    shared: str = ""

    def __str__(self) -> str:
        lines = [f"  {self.verdict:8} {self.name}: {self.text}."]
        lines += [f"           first: {self.case}."] * (self.case is not None)
        lines += [f"           all: {self.shared}."] * bool(self.shared)
        return "\n".join(lines)


@dataclass(frozen=True)
class Match:
    """
    The result of `match_env`. `str(match)` is a report.

    Attributes
    ----------
    subject : str
        The names of the environment and of the reference.
    checks : tuple of Check
        The checks, in their order.
    precision : str
        "float64" or "float32": that in which steps were compared.
    """

    subject: str
    checks: tuple[Check, ...]
    precision: str

    @property
    def ok(self) -> bool | None:
        """
        Whether the two are the same.

        False if a check differs. True if none does, and steps from the same states were compared;
        without `inject` and `extract` None: not refuted.
        """
        verdicts = {check.name: check.verdict for check in self.checks}
        if DIFFERS in verdicts.values():
            return False
        return True if verdicts.get("one step") == EQUAL else None

    def __str__(self) -> str:
        found: dict[bool | None, str] = {
            True: f"the same, compared in {self.precision}",
            False: "not the same",
            None: "not refuted; `inject` or `extract` would tell more",
        }
        said = found[self.ok]
        return "\n".join([f"{self.subject}: {said}.", *map(str, self.checks)])
