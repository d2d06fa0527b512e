"""`check_env`: what is right passes, and each rule finds the environments that break it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fakes
import jax.numpy as jnp
import pytest
from broken_envs import BROKEN, Drift, one_by_default, table_row, the_one_finding
from test_testing_pure import BROKEN as BROKEN_PURE
from test_wrapper_matrix import ROWS

import envrax_classic
from envrax import EnvConfig, EpisodeDiscount, ExpandDims, RecordVideo, Wrapper
from envrax.testing import (
    CountingEnv,
    ImageEnv,
    NestedEnv,
    check_env,
    report_env,
)
from envrax.testing.__main__ import main
from envrax.testing.batched_rules import BATCHED_RULES
from envrax.testing.env_rules import ENV_RULES

DOCS = (Path(__file__).parent.parent / "docs/advanced/checking.md").read_text(encoding="utf-8")
CLASSIC = [spec.env_class for spec in envrax_classic.ClassicSuite().specs]


def slow(*values: Any, **kwargs: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow, **kwargs)


@pytest.mark.parametrize(
    "env_class",
    [
        Drift,
        slow(CountingEnv),
        slow(ImageEnv),
        slow(NestedEnv),
        envrax_classic.CartPole,
        *(slow(cls) for cls in CLASSIC if cls is not envrax_classic.CartPole),
        *(slow(cls) for cls in (*fakes.ALL, fakes.CounterEnv)),
    ],
)
def test_sound_environments_pass(env_class: Any) -> None:
    found = report_env(env_class(), num_steps=30).findings
    assert not found


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_every_wrapper_passes(row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrap, envs = ROWS[row]
    ours: Any = ImageEnv if fakes.PixelEnv in envs else CountingEnv
    check_env(wrap(ours()), num_steps=8)


@pytest.mark.parametrize(("env_class", "rule"), one_by_default(BROKEN))
def test_a_broken_environment_gets_its_one_finding(env_class: Any, rule: str) -> None:
    """A sentence that names what broke it, what is expected, what was there, and what to do."""
    finding = the_one_finding(env_class, rule)
    assert finding.where.startswith(env_class.__name__)
    assert f": expected {finding.expected}; got {finding.got}. {finding.fix}" in str(finding)


@pytest.mark.slow
def test_the_docs_show_every_sentence() -> None:
    """`python tests/test_testing.py` prints the table."""
    assert [row for row in DOCS.splitlines() if row.startswith("| `") and ": expected " in row] == [
        *table()
    ]


def table() -> Iterator[str]:
    for rule, env_classes in (BROKEN | BROKEN_PURE).items():
        for env_class in env_classes:
            yield table_row(the_one_finding(env_class, rule))


def test_each_rule_has_an_environment_that_breaks_it() -> None:
    broken = BROKEN | BROKEN_PURE
    assert {*broken} == {rule.name for rule in ENV_RULES}
    assert all(broken.values())


@pytest.mark.parametrize("rules", [ENV_RULES, BATCHED_RULES])
def test_rules_stand_behind_those_that_they_need_and_in_the_docs(rules: Any) -> None:
    known: set[str] = set()
    for rule in rules:
        assert known >= set(rule.needs), rule.name
        known.add(rule.name)
        assert f"| `{rule.name}` | {rule.says} |" in DOCS.splitlines()


def test_the_docs_name_no_other_rule_or_broken_environment() -> None:
    names = {rule.name for rule in (*ENV_RULES, *BATCHED_RULES)}
    names |= {
        env_class.__name__
        for env_classes in (BROKEN | BROKEN_PURE).values()
        for env_class in env_classes
    }
    assert set(re.findall(r"^\| `(\w+)` \|", DOCS, re.MULTILINE)) == names


def test_what_the_host_does_is_checked_as_far_as_it_goes(tmp_path: Path) -> None:
    env = RecordVideo(ImageEnv(), tmp_path, episode_trigger=lambda _: False)
    report = report_env(env, num_steps=6)
    assert report.ok and report.notes == ()
    assert report.skipped["vmap_agrees"] == "works on the host, `traceable` is False"


class Shouting(Wrapper[Any, Any, Any, Any]):
    def reward(self, reward: Any) -> Any:
        return reward.astype("int32")


def test_the_hooks_of_wrappers_say_what_reward_and_done_are() -> None:
    """But a reward stays a float, and what a step returns is what the hooks make of it."""
    check_env(ExpandDims(EpisodeDiscount(CountingEnv())), num_steps=6)
    report = report_env(Shouting(CountingEnv()), num_steps=6)
    assert [finding.rule for finding in report.findings] == ["reward_is_a_float"]


class NeverDone(CountingEnv):
    """Ends in what it returns, and not in its state."""

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, done, info = super().step(state, action)
        return obs, state.replace(done=jnp.bool_(False)), reward, done, info


def test_an_episode_longer_than_the_check_is_run_to_its_end() -> None:
    long = EnvConfig(max_steps=200)
    assert not report_env(CountingEnv(long), num_steps=5).notes
    report = report_env(NeverDone(long), num_steps=5)
    assert [finding.rule for finding in report.findings] == ["done_is_a_flag"]


def test_what_is_not_looked_at_for_a_breach_is_noted() -> None:
    class Untraceable(CountingEnv):
        def step(self, state: Any, action: Any) -> Any:
            return super().step(state, 1 if action == 0 else action)

    (note,) = report_env(Untraceable(), num_steps=50).notes
    assert note.startswith("no episode ended within 4 steps") and "mend what is broken" in note


class Endless(CountingEnv):
    """Forgets its time limit."""

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, done, info = super().step(state, action)
        never = jnp.zeros_like(done)
        return obs, state.replace(done=never), reward, never, dict.fromkeys(info, never)


def test_a_time_limit_that_ends_nothing_is_noted() -> None:
    (note,) = report_env(Endless(), num_steps=7).notes
    assert note.endswith("`config.max_steps` is 5, does `step` read it?")


@pytest.mark.parametrize(
    ("env", "num_steps", "message"),
    [
        (CountingEnv, 5, "expected a JaxEnv; got <class"),
        (CountingEnv(), 0, "num_steps to be at least"),
        (CountingEnv(), 2.5, "num_steps to be an int; got 2.5"),
    ],
)
def test_what_cannot_be_checked_is_refused(env: Any, num_steps: int, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        check_env(env, num_steps=num_steps)


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envrax.testing:CountingEnv", "--num-steps", "5"]) == 0
    assert "CountingEnv" in capsys.readouterr().out
    arguments = ["broken_envs:SpaceIsAnInt", "classic/Ball-v0", "--import", "envrax_classic"]
    assert main([*arguments, "--num-steps=5"]) == 1
    said = capsys.readouterr().out
    assert "expected a Space; got 3" in said and "BallEnv" in said


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:Env", "No module named"),
        ("NoSuchEnv-v0", "Unknown environment"),
        ("envrax.testing:report_env", "TypeError"),
        ("builtins:dict", "expected builtins:dict to be a JaxEnv"),
    ],
)
def test_command_line_refuses(name: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([name])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--num-steps=-3", "--num-envs=0"])
def test_command_line_refuses_numbers(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["envrax.testing:CountingEnv", option])
    assert caught.value.code == 2
    assert "expected at least 1" in capsys.readouterr().err


if __name__ == "__main__":
    print(*table(), sep="\n")
