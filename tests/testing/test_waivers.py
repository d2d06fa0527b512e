"""Rules that an environment may break, with the reason: reported, tested, and never silent."""

from typing import Any, ClassVar

import pytest
from broken_envs.drift import Drift
from broken_envs.episodes import RewardIsAnInteger, StepIsNotCounted
from broken_envs.purity import CallsTheHostInOrder

from envrax import JitWrapper, RewardWrapper, VecEnv
from envrax.testing import CountingEnv, RingWorld, check_env, report_batched_env, report_env
from envrax.testing.probe import Probe
from envrax.testing.report import Report
from envrax.testing.rules import ENV_RULES
from envrax.testing.rules.base import Rule, run_rules
from envrax.testing.waivers import Waiver, declared_waivers, read_waivers

NAMES = [rule.name for rule in ENV_RULES]
REASON = "The library counts rewards."
COUNTED = {"reward_is_a_float": REASON}


class Declares(RewardIsAnInteger):
    waivers = COUNTED


class Mends(RewardWrapper[Any, Any, Any, Any]):
    def reward(self, reward: Any) -> Any:
        return reward.astype("float32")


def run(env: Any, rules: str, waivers: dict[str, Waiver], num_steps: int = 4) -> Report:
    """A check by some of the rules, without those that they need."""
    rows = [Rule(rule.check) for rule in ENV_RULES if rule.name in rules.split()]
    return run_rules(rows, Probe(env, num_steps, 0, False), "it", waivers)


def test_a_broken_rule_that_is_waived_is_no_finding() -> None:
    waivers = {"reward_is_a_float": Waiver(REASON, True)}
    report = run(RewardIsAnInteger(), "step_counts reward_is_a_float", waivers)
    assert report.ok and report.kept == ("step_counts",)
    assert report.waived == COUNTED
    report.raise_if_any()
    assert str(report).splitlines()[:2] == [
        "it: 1 rules kept, 0 broken, 1 waived, 0 skipped.",
        "  waived   reward_is_a_float: The library counts rewards.",
    ]


def test_a_waiver_of_a_rule_that_holds_is_a_finding() -> None:
    waivers = {"reward_is_a_float": Waiver(REASON, True)}
    report = run(Drift(), "reward_is_a_float", waivers)
    (finding,) = report.findings
    assert finding.rule == "reward_is_a_float" and report.waived == {}
    assert str(finding) == (
        "Drift: expected the rule to be broken, as its waiver says (The library counts rewards); "
        "got one that holds. Remove the waiver."
    )
    assert run(Drift(), "reward_is_a_float", {"reward_is_a_float": Waiver("", False)}).ok


def test_rules_that_need_a_waived_one_are_checked() -> None:
    def follows(probe: Any) -> Any:
        yield from ()

    (needed,) = (rule for rule in ENV_RULES if rule.name == "step_counts")
    rows = [Rule(needed.check), Rule(follows, ("step_counts",))]
    probe = Probe(StepIsNotCounted(), 4, 0, False)
    waived = run_rules(rows, probe, "it", {"step_counts": Waiver("so it is", True)})
    assert waived.kept == ("follows",) and waived.skipped == {}
    assert run_rules(rows, probe, "it", {}).skipped == {"follows": "needs step_counts"}
    held = run_rules(rows, Probe(Drift(), 4, 0, False), "it", {"step_counts": Waiver("no", True)})
    assert held.skipped == {} and not held.ok


def read(who: str, given: Any) -> dict[str, Waiver]:
    return read_waivers(who, given, NAMES, is_needed=True)


def test_a_host_that_is_meant_is_blamed_for_nothing_else() -> None:
    """Such as `state.rng`, since another call gives other results."""
    reason = "a simulator on the host"
    report = report_env(CallsTheHostInOrder(), waive={"nothing_is_kept_on_the_host": reason})
    assert report.waived == {"nothing_is_kept_on_the_host": reason} and not report.findings
    skipped = {name for name, why in report.skipped.items() if "calls the host" in why}
    assert skipped > {"same_key_same_episode", "key_moves_on", "jit_agrees", "vmap_agrees"}


def test_waivers_are_declared_on_a_class_an_instance_or_by_a_property() -> None:
    class Property(RewardIsAnInteger):
        @property
        def waivers(self) -> dict[str, str]:
            return COUNTED

    instance: Any = RewardIsAnInteger()
    instance.waivers = COUNTED
    for env in (Declares(), Property(), instance):
        assert declared_waivers(env, NAMES, is_needed=True) == read("", COUNTED)
    assert declared_waivers(Drift(), NAMES, is_needed=True) == {}


@pytest.mark.slow
def test_a_wrapper_may_mend_what_the_environment_declares() -> None:
    assert report_env(Mends(Declares()), num_steps=4).ok
    (finding,) = report_env(Mends(Declares()), num_steps=4, waive=COUNTED).findings
    assert finding.fix == "Remove the waiver."

    class Mended(Drift):
        waivers = COUNTED

    report = report_env(JitWrapper(Mended(), pre_warm=False), num_steps=4)
    assert [x.rule for x in report.findings] == ["reward_is_a_float"]


@pytest.mark.slow
def test_a_batch_takes_the_waivers_of_its_environment() -> None:
    """What is waived there and holds here is no finding."""
    report = report_batched_env(VecEnv(Declares(), 2), num_steps=8)
    assert report.ok and report.waived == COUNTED

    class Other(CountingEnv):
        waivers = COUNTED | {"keys_are_used_once": "no batch is checked by it"}

    assert report_batched_env(VecEnv(Other(), 2), num_steps=3).ok

    class Ring(RingWorld):
        waivers = COUNTED

    (finding,) = report_batched_env(Ring(), num_steps=3).findings
    assert finding.fix == "Remove the waiver."


def test_waivers_that_say_nothing_are_refused() -> None:
    class Misspelt(Drift):
        waivers: ClassVar[dict[str, str]] = {"step_count": "x"}

    with pytest.raises(TypeError, match="dict"):
        check_env(CountingEnv(), waive=["step_counts"])  # pyright: ignore[reportArgumentType]
    for wrong in ({"step_count": "x"}, {7: "x"}, {"dones_are_flags": "x"}):
        with pytest.raises(ValueError, match="rules"):
            check_env(CountingEnv(), waive=wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="reason"):
        check_env(CountingEnv(), waive={"step_counts": " "})
    with pytest.raises(ValueError, match="Misspelt"):
        report_batched_env(VecEnv(Misspelt(), 2))
    with pytest.raises(ValueError, match="rules"):
        report_batched_env(RingWorld(), waive={"step_counts": "of single ones"})
