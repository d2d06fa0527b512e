"""What a check found, as sentences."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """
    One broken rule; its `str` is one sentence and the way to mend it.

    Attributes
    ----------
    rule : str
        Name of the rule.
    where : str
        What broke it, "BallEnv.step".
    expected, got : str
        What the contract says, with the name of the leaf, and what was there.
    fix : str
        What to do.
    """

    rule: str
    where: str
    expected: str
    got: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}: expected {self.expected}; got {self.got}. {self.fix}"


@dataclass(frozen=True)
class Report:
    """
    Everything that a check found; its `str` is for people.

    Attributes
    ----------
    subject : str
        What was checked.
    findings : tuple of Finding
        The rules that it breaks.
    kept : tuple of str
        The rules that it keeps.
    skipped : dict
        Rules that could not be checked, with the reason.
    notes : tuple of str
        What the check did not get to see.
    """

    subject: str
    findings: tuple[Finding, ...]
    kept: tuple[str, ...]
    skipped: dict[str, str]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def raise_if_any(self) -> None:
        """
        Raise if something was found.

        Raises
        ------
        ConformanceError
            With all findings.
        """
        if self.findings:
            raise ConformanceError(self)

    def __str__(self) -> str:
        counts = f"{len(self.kept)} rules kept, {len(self.findings)} broken"
        lines = [f"{self.subject}: {counts}, {len(self.skipped)} skipped."]
        lines += [f"  broken   {finding.rule}: {finding}" for finding in self.findings]
        for reason in dict.fromkeys(self.skipped.values()):
            rules = [rule for rule, why in self.skipped.items() if why == reason]
            lines.append(f"  skipped  {', '.join(rules)}: {reason}.")
        lines += [f"  note     {note}" for note in self.notes]
        return "\n".join(lines)


class ConformanceError(AssertionError):
    """
    Something breaks the contract of environments.

    Attributes
    ----------
    report : Report
        All findings.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report

    def __reduce__(self) -> tuple[type["ConformanceError"], tuple[Report]]:
        return ConformanceError, (self.report,)  # test runners send errors between processes
