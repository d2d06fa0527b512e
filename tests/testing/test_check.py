"""`check_env` and `report_env`: correct environments pass; unchecked rules are noted."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from broken_envs import faults
from broken_envs.drift import Drift
from broken_envs.spaces import SpaceIsAnInt
from wrapper_rows import ROWS

from envrax import (
    Dict,
    Discrete,
    DomainRandomization,
    EnvConfig,
    EpisodeDiscount,
    ExpandDims,
    RecordVideo,
    VecEnv,
    Wrapper,
    classic,
)
from envrax.testing import (
    ConformanceError,
    CountingEnv,
    ImageEnv,
    MaskedEnv,
    NestedEnv,
    check_batched_env,
    check_env,
    report_batched_env,
    report_env,
)
from envrax.testing.fakes import FakeConfig
from envrax.testing.probe import Probe
from envrax.testing.rules import ENV_RULES
from envrax.testing.rules.episodes import limit_is_in_the_config

SOUND: list[Any] = [Drift, ImageEnv, MaskedEnv, NestedEnv]
SOUND += [spec.env_class for spec in classic.ClassicSuite().specs]


@pytest.mark.slow
@pytest.mark.parametrize("env_class", SOUND)
def test_sound_environments_pass(env_class: Any) -> None:
    assert not report_env(env_class(), num_steps=30).findings


# The stacks, in which most wrappers are, and some that are in none.
CHECKED = ("key", "gymnasium", "images", "episodes", "AtariPreprocessing", "EpisodicLife")


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=pytest.mark.slow if row in CHECKED else pytest.mark.exhaustive)
        for row in ROWS
    ],
)
def test_every_wrapper_passes(row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrap, (env_class, *_) = ROWS[row]
    check_env(wrap(env_class()), num_steps=8)


def test_a_finding_is_a_sentence() -> None:
    with pytest.raises(ConformanceError) as caught:
        check_env(SpaceIsAnInt(), num_steps=1)
    (finding,) = caught.value.report.findings
    assert str(caught.value.report) == str(caught.value)
    assert str(finding) in str(caught.value)
    raised = "TypeError: SpaceIsAnInt.action_space: expected a space of envrax"
    assert finding.got.startswith(raised)
    assert str(finding) == f"{finding.where}: expected a Space; got {finding.got}. {finding.fix}"


@pytest.mark.slow
def test_an_environment_on_the_host_is_checked_without_traces(tmp_path: Path) -> None:
    env = RecordVideo(ImageEnv(), tmp_path, episode_trigger=lambda _: False)
    report = report_env(env, num_steps=8)
    assert report.ok and report.notes == ()
    assert report.skipped["vmap_agrees"] == "runs on the host, where no call can be repeated"


@pytest.mark.slow
def test_options_of_jax_for_debugging_change_no_result() -> None:
    """The checker uses keys more than once, counts compilations and moves arrays to the host."""
    with jax.debug_key_reuse(True), jax.disable_jit(True), jax.transfer_guard("disallow"):
        report = report_env(CountingEnv(), num_steps=3)
    assert report.ok and len(report.kept) == len(ENV_RULES) - 1, str(report)


@pytest.mark.slow
def test_options_of_jax_for_debugging_change_no_result_of_a_batch() -> None:
    with jax.debug_key_reuse(True), jax.disable_jit(True), jax.transfer_guard("disallow"):
        assert report_batched_env(VecEnv(CountingEnv(), 2), num_steps=7).ok


class IntegerReward(Wrapper[Any, Any, Any, Any]):
    def reward(self, reward: Any) -> Any:
        return reward.astype("int32")


def test_the_hooks_of_wrappers_say_what_reward_and_done_are() -> None:
    """But a reward has to stay a float."""
    retyped = ExpandDims(EpisodeDiscount(CountingEnv()))
    for rule in ("reward_is_a_float", "done_is_a_flag"):
        assert not faults(rule, retyped)
    assert faults("reward_is_a_float", IntegerReward(CountingEnv()))


class WithoutActions(CountingEnv):
    action_space: Any = Dict({})

    def advance(self, state: Any, action: Any) -> Any:
        return super().advance(state, 0)


@pytest.mark.slow
def test_an_environment_may_have_no_actions() -> None:
    check_env(WithoutActions(), num_steps=8)
    check_batched_env(VecEnv(WithoutActions(), 2), num_steps=8)


class NeverDone(CountingEnv):
    """Ends in what it returns, and not in its state."""

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, done, info = super().step(state, action)
        return obs, state.replace(done=jnp.bool_(False)), reward, done, info


def test_an_episode_longer_than_the_check_is_run_to_its_end() -> None:
    assert faults("done_is_a_flag", NeverDone(EnvConfig(max_steps=200)), num_steps=1)


class OwnParameter(CountingEnv):
    """`with_config` cannot build it, since its `__init__` takes no config."""

    def __init__(self, length: int) -> None:
        super().__init__(FakeConfig(max_steps=length))
        self.length = length


def test_a_limit_that_no_other_config_moves_is_not_checked() -> None:
    report = report_env(OwnParameter(5), num_steps=8)
    assert report.ok
    reason = "`with_config` cannot build it with another `max_steps`"
    assert report.skipped["limit_is_in_the_config"] == reason
    assert "limit_is_in_the_config" in report_env(CountingEnv(), num_steps=8).kept


class EvenLimit(CountingEnv):
    def __init__(self, config: FakeConfig | None = None) -> None:
        super().__init__(config)
        assert self.config.max_steps % 2 == 0


class LimitOfATable(CountingEnv):
    """Takes no limit but the length of its table, and finds that out in a reset."""

    def begin(self, key: jax.Array, **episode: jax.Array) -> Any:
        assert self.config.max_steps == 10
        return super().begin(key, **episode)


@pytest.mark.parametrize("env_class", [EvenLimit, LimitOfATable])
def test_a_class_may_assert_what_its_config_is(env_class: Any) -> None:
    report = report_env(env_class(FakeConfig(max_steps=10)), num_steps=8)
    assert report.ok and "limit_is_in_the_config" in report.skipped


class LimitThatIsNoMaxSteps(CountingEnv):
    def at_limit(self, state: Any) -> Any:
        return state.step >= 10


def test_a_limit_of_its_own_may_equal_that_of_the_config() -> None:
    for limit in (10, 50):
        env = LimitThatIsNoMaxSteps(FakeConfig(max_steps=limit))
        assert not faults("limit_is_in_the_config", env)


def test_a_limit_may_be_an_array() -> None:
    limit: Any = jnp.int32(10)
    assert not faults("limit_is_in_the_config", CountingEnv(FakeConfig(max_steps=limit)))


def test_a_limit_may_be_drawn() -> None:
    env = DomainRandomization(
        CountingEnv(), lambda rng: {"max_steps": jax.random.randint(rng, (), 3, 9, jnp.int32)}
    )
    for rule in ("limits_have_reasons", "limit_is_in_the_config", "step_counts"):
        assert not faults(rule, env)


class Island(CountingEnv):
    """Who leaves it is truncated. Half of all who walk at random do so in two steps."""

    action_space: Any = Discrete(2)

    def begin(self, key: jax.Array, **episode: jax.Array) -> Any:
        return super().begin(key, **episode).replace(number=jnp.int32(500))

    def advance(self, state: Any, action: Any) -> Any:
        _, reward, _ = super().advance(state, action)
        return state.replace(number=state.number + 2 * action - 1), reward, jnp.bool_(False)

    def step(self, state: Any, action: Any) -> Any:
        obs, new, reward, done, info = super().step(state, action)
        cut = done | (abs(new.number - 500) >= 2)
        return obs, new.replace(done=cut), reward, cut, {**info, "truncated": cut}


@pytest.mark.parametrize("seed", range(6))
def test_an_end_that_often_comes_at_one_step_is_no_limit(seed: int) -> None:
    probe = Probe(Island(FakeConfig(max_steps=50)), 8, seed, False)
    probe.compiles = True
    assert not list(limit_is_in_the_config(probe))


class OwnLimit(CountingEnv):
    """Its limit is below that of its config, which `at_limit` says."""

    def at_limit(self, state: Any) -> Any:
        return state.step >= min(4, self.config.max_steps)


class LimitOfFrames(CountingEnv):
    """Counts frames, four a step, and another `max_steps` does not move its limit."""

    def at_limit(self, state: Any) -> Any:
        return 4 * state.step >= 40


class DrawnLimit(CountingEnv):
    """Draws its limit at reset, one of two."""

    def at_limit(self, state: Any) -> Any:
        return state.step >= 4 + state.number % 2


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("env_class", [OwnLimit, LimitOfFrames, DrawnLimit])
def test_a_limit_that_at_limit_says_may_be_below_the_config(env_class: Any, seed: int) -> None:
    report = report_env(env_class(FakeConfig(max_steps=50)), num_steps=8, seed=seed)
    assert report.ok and "limit_is_in_the_config" in report.kept, str(report)


class Endless(CountingEnv):
    """Forgets its time limit."""

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, done, info = super().step(state, action)
        never = jnp.zeros_like(done)
        return obs, state.replace(done=never), reward, never, dict.fromkeys(info, never)


def test_steps_without_an_end_are_noted() -> None:
    probe = Probe(CountingEnv(), 8, 0, False)  # as one that cannot be compiled
    assert len(probe.transitions) == 4
    (note,) = probe.notes()
    assert note.startswith("no episode ended within 4 steps") and "fix the findings" in note
    probe = Probe(Endless(), 8, 0, False)
    probe.compiles = True
    assert len(probe.transitions) == 8
    (note,) = probe.notes()
    assert note.endswith("`config.max_steps` is 5; does `step` use it?")
