"""`Match`, the result of `match_env`: checks, each with a verdict and the first differing case."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from envrax._jax.types import named_leaves
from envrax.testing.match.numbers import named_as_key, text

EQUAL, ALIKE, DIFFERS, OPEN, SKIPPED = "equal", "alike", "differs", "open", "skipped"
MOST_LEAVES = 16  # of a state, that are printed


class Case(NamedTuple):
    """
    A step, or a window of steps, whose results differ. `str(case)` is one line.

    Attributes
    ----------
    state, action : pytree of np.ndarray
        The state before the step, as `inject` gets it, and the action; of a window the first state
        and all actions.
    field : str
        The number that differs most, such as "obs[1]".
    ours, theirs : float
        Its value in the environment, and in the reference; the mean of several draws.
    draws : int
        How many draws of each side those are.
    """

    state: Any
    action: Any
    field: str
    ours: float
    theirs: float
    draws: int = 1

    def __str__(self) -> str:
        state = {k: x for k, x in named_leaves(self.state).items() if not named_as_key(k, x)}
        shown = [f"{k}={text(x)}" for k, x in state.items()][:MOST_LEAVES]
        shown += ["..."] * (len(state) > MOST_LEAVES)
        shown += [f"{k}={text(x)}" for k, x in named_leaves({"action": self.action}).items()]
        mean = f" in the mean of {self.draws} draws" * (self.draws > 1)
        before = f"after {', '.join(shown)}"
        return f"{self.field} is {text(self.ours)}, not {text(self.theirs)},{mean} {before}"


@dataclass(frozen=True)
class Check:
    """
    One thing that was compared.

    Attributes
    ----------
    name : str
        "spaces", "one step", "windows", "limit", "starts", "episodes", "ends", "read states",
        "read starts" or "transfer".
    verdict : str
        "equal"; "alike" for samples that no test tells apart; "differs"; "open" if nothing differs,
        but too much could not be compared; "skipped".
    text : str
        What was compared, or the difference, or why the check was skipped.
    case : Case or None
        The first case that differs.
    shared : str
        What all differing states have in common; may be empty.
    power : str
        Which differences would have been found.
    left_out : tuple of str
        What was not compared, with counts.
    """

    name: str
    verdict: str
    text: str
    case: Case | None = None
    shared: str = ""
    power: str = ""
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"  {self.verdict:8} {self.name}: {self.text}."]
        more = [
            ("first", str(self.case or "")),
            ("all", self.shared),
            ("would be found, with 99 %", self.power),
            ("not compared", "; ".join(self.left_out)),
        ]
        lines += [f"           {name}: {said}." for name, said in more if said]
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

        False if a check differs. True if none does, steps from the same states were compared, by
        `inject` or `extract`, and no check is open. Else None: not refuted.
        """
        verdicts = {check.name: check.verdict for check in self.checks}
        if DIFFERS in verdicts.values():
            return False
        compared = {verdicts.get("one step"), verdicts.get("read states")} & {EQUAL, ALIKE}
        return True if compared and OPEN not in verdicts.values() else None

    def __str__(self) -> str:
        is_open = any(check.verdict == OPEN for check in self.checks)
        found: dict[bool | None, str] = {
            True: f"the same, compared in {self.precision}",
            False: "not the same",
            None: "not refuted; what is open could not be compared"
            if is_open
            else "not refuted; `inject` or `extract` would tell more",
        }
        said = found[self.ok]
        return "\n".join([f"{self.subject}: {said}.", *map(str, self.checks)])
