"""`Rule`, and `run_rules`, which checks a table of them."""

import inspect
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import jax

from envrax.testing.report import Finding, Report
from envrax.testing.waivers import Waiver

ON_HOST = "runs on the host, where no call can be repeated"


class Fault(NamedTuple):
    """
    What the function of a rule yields: a `Finding` without the name of the rule.

    `where` is what follows the name of the class, such as ".step".
    """

    where: str
    expected: str
    got: str
    fix: str


Faults = Generator[Fault]


class SkipRule(Exception):
    """Raised by a rule that does not apply; its message is the reason."""


@dataclass(frozen=True)
class Rule:
    """
    A rule of the contract, with the name and the docstring of its function.

    Attributes
    ----------
    check : callable
        Takes a probe and yields faults. It is stopped at the first one, unless it `lists` all.
    needs : tuple of str
        Rules that must hold first, or this rule is skipped: one defect should give one finding.
    traced : bool
        Whether the rule traces the environment. If so, it is skipped where `traceable` is False,
        and in a batch whose program calls simulators on the host.
    kept_by : tuple of callable
        Methods of a base class that keep the rule, whatever else its subclass defines. A class
        that has them is not checked.
    lists : bool
        Whether all faults are reported, as where several leaves or methods may be wrong.
    """

    check: Callable[[Any], Faults]
    needs: tuple[str, ...] = ()
    traced: bool = False
    kept_by: tuple[Callable[..., Any], ...] = ()
    lists: bool = False

    def is_kept_by(self, env: Any) -> bool:
        """Whether the methods of an environment are those that keep the rule."""
        methods = [(getattr(type(env), method.__name__, None), method) for method in self.kept_by]
        return bool(methods) and all(one is other for one, other in methods)

    @property
    def name(self) -> str:
        """Name of the rule."""
        return self.check.__name__

    @property
    def sentence(self) -> str:
        """The rule in words: the docstring in one line."""
        return " ".join((inspect.getdoc(self.check) or "").split())

    def findings(self, probe: Any) -> list[Finding]:
        """What the rule finds; a fault of several steps once."""
        with closing(self.check(probe)) as faults:
            try:
                found = list(faults if self.lists else islice(faults, 1))
            except SkipRule:
                raise
            except Exception as error:  # whatever the code of a user raises
                expected = f"no exception while `{self.name}` is checked"
                found = [fault_of(error, "", expected, "Fix the code that raised it.")]
        once = {fault[:2]: fault for fault in reversed(found)}.values()
        name = probe.class_name
        return [Finding(self.name, f"{name}{where}", *fault) for where, *fault in reversed(once)]


def run_rules(
    rules: Iterable[Rule], probe: Any, subject: str, waivers: Mapping[str, Waiver]
) -> Report:
    """
    Check rules in their order.

    Options of JAX for debugging are off meanwhile: the rules use keys more than once, count
    compilations and read arrays on the host. Keys are of threefry, as in a batch.

    Parameters
    ----------
    rules : iterable of Rule
        The rules. Each one comes after the rules that it needs.
    probe : Probe
        The argument of the rules.
    subject : str
        The name of the environment, for the report.
    waivers : mapping of str to Waiver
        The waivers by name of the rule. A waived rule counts as kept for the rules that need it.

    Returns
    -------
    Report
        The result.
    """
    with (
        jax.debug_key_reuse(False),
        jax.disable_jit(False),
        jax.transfer_guard("allow"),
        jax.default_prng_impl("threefry2x32"),
    ):
        return _checked(rules, probe, subject, waivers)


def _checked(
    rules: Iterable[Rule], probe: Any, subject: str, waivers: Mapping[str, Waiver]
) -> Report:
    findings: list[Finding] = []
    kept: list[str] = []
    by_base: list[str] = []
    waived: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for rule in rules:
        waiver = waivers.get(rule.name)
        is_kept = rule.is_kept_by(probe.env)
        if rule.traced and not probe.traceable:
            skipped[rule.name] = ON_HOST
        elif missing := [name for name in rule.needs if name not in {*kept, *waived}]:
            skipped[rule.name] = skipped.get(missing[0], f"needs {' and '.join(missing)}")
        else:
            try:
                found = [] if is_kept else rule.findings(probe)
            except SkipRule as reason:
                skipped[rule.name] = str(reason)
                continue
            if not found:
                kept.append(rule.name)
            if is_kept:
                by_base.append(rule.name)
            if waiver and found:
                waived[rule.name] = waiver.reason
            elif waiver and waiver.is_needed:
                findings.append(_unneeded(rule, probe, waiver))
            else:
                findings += found
    notes = tuple(probe.notes())
    return Report(
        subject, tuple(findings), tuple(kept), skipped, notes, waived, by_base=tuple(by_base)
    )


def _unneeded(rule: Rule, probe: Any, waiver: Waiver) -> Finding:
    expected = f"the rule to be broken, as its waiver says ({waiver.reason.rstrip('.')})"
    return Finding(rule.name, probe.class_name, expected, "one that holds", "Remove the waiver.")


def fault_of(error: Exception, where: str, expected: str, fix: str) -> Fault:
    """The fault of code that raised an exception it should not raise."""
    message = str(error).strip().split("\n")[0].rstrip(".")
    got = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return Fault(where, expected, got, fix)
