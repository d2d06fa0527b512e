"""What a rule is, and how a table of rules is gone through."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from envrax.testing.report import Finding, Report


class Fault(NamedTuple):
    """What a rule yields: a finding that does not know the rule yet."""

    where: str
    expected: str
    got: str
    fix: str


Faults = Iterator[Fault]


class SkipRule(Exception):
    """Raised by a rule that does not apply, with the reason."""


@dataclass(frozen=True)
class Rule:
    """
    A rule: named after its function, explained by the docstring.

    Attributes
    ----------
    check : callable
        From a probe to an iterator of faults.
    needs : tuple of str
        Rules that have to be kept for this one to say something: one defect, one finding.
    traced : bool
        Whether it traces, and so does not apply to what works on the host.
    """

    check: Callable[[Any], Faults]
    needs: tuple[str, ...] = ()
    traced: bool = False

    @property
    def name(self) -> str:
        """Name of the rule."""
        return self.check.__name__

    @property
    def says(self) -> str:
        """What is checked, in a sentence."""
        return " ".join((inspect.getdoc(self.check) or "").split())


def run_rules(rules: Iterable[Rule], probe: Any, subject: str) -> Report:
    """
    Go through a table of rules.

    Parameters
    ----------
    rules : iterable of Rule
        The table; a rule stands behind those that it needs.
    probe : Any
        What the rules are given, with `traceable` and `notes`.
    subject : str
        What is checked, for the report.

    Returns
    -------
    Report
        Where a rule finds the same fault at several steps, the first one.
    """
    findings: list[Finding] = []
    kept: list[str] = []
    skipped: dict[str, str] = {}
    for rule in rules:
        if rule.traced and not probe.traceable:
            skipped[rule.name] = "works on the host, `traceable` is False"
        elif missing := [name for name in rule.needs if name not in kept]:
            skipped[rule.name] = skipped.get(missing[0], f"needs {' and '.join(missing)}")
        else:
            try:
                found = {fault[:2]: fault for fault in reversed(_faults(rule, probe, subject))}
            except SkipRule as reason:
                skipped[rule.name] = str(reason)
                continue
            findings += [Finding(rule.name, *fault) for fault in reversed(found.values())]
            kept += [] if found else [rule.name]
    return Report(subject, tuple(findings), tuple(kept), skipped, tuple(probe.notes()))


def raised(where: str, expected: str, error: Exception, fix: str) -> Fault:
    """The fault of an exception."""
    message = str(error).strip().split("\n")[0].rstrip(".")
    got = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return Fault(where, expected, got, fix)


def _faults(rule: Rule, probe: Any, subject: str) -> list[Fault]:
    try:
        return list(rule.check(probe))
    except SkipRule:
        raise
    except Exception as error:  # whatever the code of a user raises
        return [raised(subject, f"{rule.name} to run", error, "Mend what raised it.")]
