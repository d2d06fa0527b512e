"""`Finding` and `Report`: the result of a check."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Finding:
    """
    A broken rule. `str(finding)` says what is wrong and how to fix it.

    Attributes
    ----------
    rule : str
        Name of the rule.
    where : str
        The method that breaks it, such as "BallEnv.step".
    expected, got : str
        What the contract requires, with the name of the leaf, and what was found.
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
    The result of a check. `str(report)` lists the findings, waivers, skipped rules and notes.

    Attributes
    ----------
    subject : str
        The name of the environment.
    findings : tuple of Finding
        The broken rules, and the waivers of rules that hold.
    kept : tuple of str
        Names of the rules that hold.
    skipped : dict
        The reason for each rule that could not be checked, by name.
    notes : tuple of str
        What the check did not cover, such as the end of an episode.
    waived : dict
        The reason for each broken rule that is waived, by name.
    by_base : tuple of str
        Names of the rules among `kept` that `reset` and `step` of `EpisodicEnv` keep by themselves.
        They were not checked.
    """

    subject: str
    findings: tuple[Finding, ...]
    kept: tuple[str, ...]
    skipped: dict[str, str]
    notes: tuple[str, ...] = ()
    waived: dict[str, str] = field(default_factory=dict[str, str])
    by_base: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def ok(self) -> bool:
        """Whether there are no findings: every broken rule is waived."""
        return not self.findings

    def raise_if_any(self) -> None:
        """
        Raise an error if there are findings.

        Raises
        ------
        ConformanceError
            With all findings.
        """
        if self.findings:
            raise ConformanceError(self)

    def __str__(self) -> str:
        counts = f"{len(self.kept)} rules kept, {len(self.findings)} broken"
        counts += f", {len(self.waived)} waived" * bool(self.waived)
        lines = [f"{self.subject}: {counts}, {len(self.skipped)} skipped."]
        lines += [f"  broken   {finding.rule}: {finding}" for finding in self.findings]
        if self.by_base:
            lines.append(f"  kept     {', '.join(self.by_base)}: by `EpisodicEnv`, not checked.")
        lines += [f"  waived   {rule}: {reason}" for rule, reason in self.waived.items()]
        for reason in dict.fromkeys(self.skipped.values()):
            rules = [rule for rule, why in self.skipped.items() if why == reason]
            lines.append(f"  skipped  {', '.join(rules)}: {reason}.")
        lines += [f"  note     {note}" for note in self.notes]
        return "\n".join(lines)


class ConformanceError(AssertionError):
    """
    An environment breaks the contract.

    Attributes
    ----------
    report : Report
        The report with all findings.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report

    def __reduce__(self) -> tuple[type["ConformanceError"], tuple[Report]]:
        return ConformanceError, (self.report,)  # test runners send errors between processes
