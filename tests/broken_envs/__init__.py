"""Environments that break one rule of `envrax.testing` each, in a module per module of rules."""

import re
from typing import Any

import numpy as np
import pytest

from broken_envs import episodes, keys, masks, purity, returns, spaces, transforms, worlds
from envrax.testing import ConformanceError, Finding, check_env
from envrax.testing.batched_probe import BatchedProbe
from envrax.testing.probe import Probe
from envrax.testing.rules import BATCHED_RULES, ENV_RULES, WORLD_RULES

_MODULES = (spaces, purity, returns, masks, episodes, keys, transforms, worlds)

# Of each rule the environments that break it, in the order of the rules.
BROKEN: dict[str, list[Any]] = {
    rule.name: found
    for rule in (*ENV_RULES, *WORLD_RULES)
    if (found := [x for module in _MODULES for x in module.BROKEN.get(rule.name, [])])
}


def faults(rule: str, env: Any, num_steps: int = 8) -> list[Finding]:
    """The findings of one rule; cheaper than a whole check."""
    batched = hasattr(env, "n_slots")
    (found,) = (
        row
        for row in (BATCHED_RULES if batched else (*ENV_RULES, *WORLD_RULES))
        if row.name == rule
    )
    probe = BatchedProbe(env, num_steps, 0) if batched else Probe(env, num_steps, 0, True)
    probe.compiles = probe.traceable
    np.random.seed(0)
    return found.findings(probe)


def the_one_finding(env_class: Any, rule: str) -> None:
    """`check_env` raises one finding for an environment that breaks one rule."""
    np.random.seed(0)
    with pytest.raises(ConformanceError) as caught:
        check_env(env_class(), num_steps=8, gradients=rule == "gradients_are_finite")
    (finding,) = caught.value.report.findings
    assert finding.rule == rule
    assert str(finding) in str(caught.value)


def table_row(finding: Finding) -> str:
    """A row of `messages.md`, without the words of JAX's own errors."""
    got = re.sub(r"^(\w+Error: |one in <).*", lambda m: m[1].removesuffix("<") + "…", finding.got)
    where = finding.where.replace("(", "").split(".")[0].split(" ")[0]
    sentence = f"{finding.where}: expected {finding.expected}; got {got}. {finding.fix}"
    return f"| `{where}` | {sentence.replace('|', chr(92) + '|')} |"
