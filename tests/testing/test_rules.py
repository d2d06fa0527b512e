"""Each rule finds the environments that break it; the reference shows every rule."""

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from broken_envs import BROKEN, faults, table_row, the_one_finding
from broken_envs.drift import Drift
from broken_envs.episodes import CountsOnAfterARealEnd, DoneAfterARealEnd, TruncatedIsNotDone
from broken_envs.keys import (
    ABranchKeepsTheKey,
    KeyIsUsedTwice,
    NextEpisodeDiffersByTheKindOfKey,
    NextEpisodesKeyIsTyped,
    ResetKeepsTheKey,
)
from broken_envs.spaces import (
    FirstObservationLeavesTheBox,
    ObservationIsAnInteger,
    ObservationLacksAKey,
)
from broken_envs.transforms import AsksATracer, DoneIsAPythonBool, RewardIsAPythonFloat
from fakes import NestedEnv

from envrax import VecEnv, Wrapper
from envrax.testing import CountingEnv, check_batched_env, check_env
from envrax.testing.rules import BATCHED_RULES, ENV_RULES, WORLD_RULES

ROOT = Path(__file__).parents[2]
MESSAGES = (Path(__file__).parents[1] / "broken_envs/messages.md").read_text(encoding="utf-8")


# Of each rule the first environment; the table has all.
FIRST = [pytest.param(x[0], rule, id=x[0].__name__) for rule, x in BROKEN.items()]


@pytest.mark.parametrize(("env_class", "rule"), FIRST)
def test_a_rule_finds_what_breaks_it(env_class: Any, rule: str) -> None:
    found = faults(rule, env_class(), num_steps=2 if rule == "compiles_once" else 8)
    assert found and all(fault.where.startswith(env_class.__name__) for fault in found)
    assert all(fault.fix.endswith(".") for fault in found)


class EndsInAHook(Wrapper[Any, Any, Any, Any]):
    def done(self, done: Any) -> Any:
        return jnp.ones_like(done)


def test_a_hook_of_done_does_not_end_episodes() -> None:
    """The statistics of a wrapper inside would miss such an end."""
    (fault,) = faults("done_is_a_flag", EndsInAHook(CountingEnv()))
    assert (fault.where, fault.got) == ("EndsInAHook.done", "True for False")


LATE = [
    ("key_moves_on", ABranchKeepsTheKey, ".step"),
    ("done_is_a_flag", DoneAfterARealEnd, ".reset_after"),
    ("step_counts", CountsOnAfterARealEnd, ".reset_after"),
    ("observations_are_in_the_space", FirstObservationLeavesTheBox, ".reset_after"),
    ("both_kinds_of_keys", NextEpisodesKeyIsTyped, ".reset_after"),
    ("both_kinds_of_keys", NextEpisodeDiffersByTheKindOfKey, ".reset_after"),
]


@pytest.mark.parametrize(("rule", "env_class", "where"), LATE)
def test_rules_look_at_late_steps_and_at_the_next_episode(
    rule: str, env_class: Any, where: str
) -> None:
    (fault,) = faults(rule, env_class())
    assert fault.where == f"{env_class.__name__}{where}"


PAIRS = [(env_class, rule) for rule, x in BROKEN.items() for env_class in x]
FIRST_OF_EACH_FILE = {env_class.__module__: env_class for env_class, _ in PAIRS[::-1]}.values()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_class", "rule"),
    [
        pytest.param(*pair, marks=[] if pair[0] in FIRST_OF_EACH_FILE else pytest.mark.exhaustive)
        for pair in PAIRS
    ],
)
def test_a_broken_environment_gets_its_one_finding(env_class: Any, rule: str) -> None:
    the_one_finding(env_class, rule)


@pytest.mark.slow
def test_each_broken_environment_has_its_message() -> None:
    """`python tests/testing/test_rules.py` prints the table."""
    assert [row for row in MESSAGES.splitlines() if row.startswith("| `")] == [*table()]


def table() -> Iterator[str]:
    for env_class, rule in PAIRS:
        yield table_row(faults(rule, env_class())[0])


def test_each_rule_has_an_environment_that_breaks_it() -> None:
    assert [*BROKEN] == [rule.name for rule in (*ENV_RULES, *WORLD_RULES)]
    assert all(BROKEN.values())


@pytest.mark.parametrize("rules", [(*ENV_RULES, *WORLD_RULES), BATCHED_RULES])
def test_rules_come_after_those_that_they_need(rules: Any) -> None:
    known: set[str] = set()
    for rule in rules:
        assert known >= set(rule.needs), rule.name
        known.add(rule.name)


def test_the_reference_lists_each_rule_once() -> None:
    page = (ROOT / "docs/reference/testing.md").read_text(encoding="utf-8")
    shown = runpy.run_path(str(ROOT / ".ci/fill.py"))["on_page_markdown"](page, page=None)
    rules = {rule.name: rule.sentence for rule in (*ENV_RULES, *WORLD_RULES, *BATCHED_RULES)}
    assert sorted(re.findall(r"^\| `(\w+)` \| (.+) \|$", shown, re.M)) == sorted(rules.items())
    of_a_batch = shown.partition("| rule of `check_batched_env` |")[2]
    assert all(f"`{rule.name}`" in of_a_batch for rule in BATCHED_RULES)


def test_an_end_beyond_the_checked_steps_needs_a_reason_too() -> None:
    """Truncated at step 25, which `done` does not follow."""
    (fault,) = faults("ends_have_reasons", TruncatedIsNotDone())
    assert fault.got == "terminated False, truncated True, done False"


def test_an_end_by_chance_is_no_time_limit() -> None:
    """Play ends sooner. At the limit it would end too, and so it would a step before."""
    assert not faults("limits_have_reasons", NestedEnv())


def test_two_broken_key_rules_are_both_reported() -> None:
    class Both(KeyIsUsedTwice, ResetKeepsTheKey):
        pass

    needs = {rule.name: rule.needs for rule in ENV_RULES}
    for rule, other in (RULES := ("key_moves_on", "keys_are_used_once")), RULES[::-1]:
        assert faults(rule, Both())
        needed = [rule]
        for name in needed:
            needed += needs[name]
        assert other not in needed


@pytest.mark.parametrize(
    ("env_class", "word"),
    [(AsksATracer, "`if`"), (DoneIsAPythonBool, "`bool()`"), (RewardIsAPythonFloat, "`float()`")],
)
def test_the_advice_names_what_asks_for_a_traced_value(env_class: Any, word: str) -> None:
    (fault,) = faults("traces_under_jit", env_class())
    assert word in fault.fix


def test_a_wrong_dtype_is_to_be_cast() -> None:
    (fault,) = faults("observations_are_in_the_space", ObservationIsAnInteger())
    assert fault.fix.startswith("Cast it with `.astype(jnp.float32)`.")


def test_the_advice_for_an_entry_of_a_dict_is_code() -> None:
    class Seeing(ObservationLacksAKey):
        def observe(self, state: Any) -> Any:
            return {"place": state.place, "time": state.step}

    (fault,) = faults("observations_are_in_the_space", Seeing())
    assert fault.expected == "`obs.time` to be float32[]"
    assert fault.fix.startswith("Cast it with `.astype(jnp.float32)`.")


def test_an_exception_in_a_rule_is_a_finding() -> None:
    class Shy(CountingEnv):
        def render(self, state: Any) -> Any:
            raise RuntimeError("no display")

    (fault,) = faults("render_is_an_image", Shy())
    assert fault.got == "RuntimeError: no display"


class PaysInBfloat16(Drift):
    """XLA leaves out most roundings to bfloat16, so that its pay under `jit` is another."""

    def step(self, state: Any, action: Any) -> Any:
        obs, new, _, *rest = super().step(state, action)
        pay = (obs.astype(jnp.bfloat16) * jnp.bfloat16(0.9)).sum() * jnp.bfloat16(3.1)
        return obs, new, pay.astype(jnp.float32), *rest


class PaysMoreWhenCompiled(PaysInBfloat16):
    def step(self, state: Any, action: Any) -> Any:
        obs, new, pay, *rest = super().step(state, action)
        return obs, new, pay * 1.1 if isinstance(pay, jax.core.Tracer) else pay, *rest


def test_an_environment_may_compute_in_bfloat16() -> None:
    env = PaysInBfloat16()
    _, state = env.reset(jax.random.key(0))
    pays = [step(state, jnp.int32(2))[2] for step in (env.step, jax.jit(env.step))]
    assert 1e-3 < abs(pays[0] / pays[1] - 1) < 2**-7
    check_env(env)
    for compiled in (True, False):
        check_batched_env(VecEnv(env, num_envs=3, jit_compile=compiled))
    assert faults("jit_agrees", PaysMoreWhenCompiled())


if __name__ == "__main__":
    print(*table(), sep="\n")
