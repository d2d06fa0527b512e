"""`EpisodicEnv`: what `reset` and `step` make of `begin`, `advance`, `observe` and `info`."""

import re
from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest
from helpers import assert_trees_equal

import envrax
from envrax import Box, Discrete, EnvConfig, EnvState, EpisodicEnv, VecEnv
from envrax.testing import report_env

KEY = jax.random.key(0)


@chex.dataclass
class DriftState(EnvState):
    x: jax.Array


class Drift(EpisodicEnv[Box, Discrete, DriftState, EnvConfig]):
    """A step draws; at 3 the task is over."""

    observation_space: Any = Box(-100.0, 100.0, ())
    action_space: Any = Discrete(2)

    def begin(self, key: jax.Array, **episode: jax.Array) -> DriftState:
        return DriftState(x=jax.random.uniform(key, (), jnp.float32), **episode)

    def advance(self, state: DriftState, action: Any) -> tuple[DriftState, jax.Array, jax.Array]:
        rng, key = jax.random.split(state.rng)
        x = state.x + jax.random.uniform(key, (), jnp.float32) * jnp.asarray(action, jnp.float32)
        return state.replace(rng=rng, x=x), -x, x > 3

    def observe(self, state: DriftState) -> jax.Array:
        return state.x

    def info(self, state: DriftState) -> dict[str, Any]:
        return {"seen": state.step, "over": state.done}


def test_an_episode_by_hand() -> None:
    env = Drift(EnvConfig(max_steps=4))
    rng, key = jax.random.split(KEY)
    x = jax.random.uniform(key, (), jnp.float32)
    obs, state = env.reset(KEY)
    first = DriftState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False), x=x)
    assert_trees_equal((obs, state), (x, first))
    for step in range(1, 5):
        rng, key = jax.random.split(rng)
        x += jax.random.uniform(key, (), jnp.float32)
        obs, state, reward, done, info = env.step(state, 1)
        ended = jnp.bool_(step == 4)
        expected = DriftState(rng=rng, step=jnp.int32(step), done=ended, x=x)
        assert_trees_equal((obs, state, reward, done), (x, expected, -x, ended))
        reasons = {"terminated": jnp.bool_(False), "truncated": ended}
        assert_trees_equal(info, {**reasons, "seen": jnp.int32(step), "over": ended})


@pytest.mark.parametrize(
    ("x", "step", "reasons"),
    [(0.0, 0, (0, 0)), (4.0, 0, (1, 0)), (0.0, 3, (0, 1)), (4.0, 3, (1, 1))],
)
def test_both_ends(x: float, step: int, reasons: tuple[int, int]) -> None:
    env = Drift(EnvConfig(max_steps=4))
    state = env.reset(KEY)[1].replace(x=jnp.float32(x), step=jnp.int32(step))
    _, state, _, done, info = env.step(state, 0)
    assert (bool(info["terminated"]), bool(info["truncated"])) == reasons
    assert bool(done) == bool(state.done) == any(reasons)


BY_BASE = ("observe_agrees", "ends_have_reasons", "limits_have_reasons")


class OwnNextStart(Drift):
    def reset_after(self, state: DriftState) -> tuple[jax.Array, DriftState]:
        obs, state = super().reset_after(state)
        return obs + 1, state


def test_what_the_base_keeps_is_not_checked() -> None:
    report = report_env(Drift())
    assert report.ok and report.by_base == BY_BASE and {*BY_BASE} <= {*report.kept}
    assert f"\n  kept     {', '.join(BY_BASE)}: by `EpisodicEnv`, not checked." in str(report)


def test_an_override_is_checked() -> None:
    report = report_env(OwnNextStart())
    assert report.by_base == () and "by `EpisodicEnv`" not in str(report)
    assert {finding.rule for finding in report.findings} == {"observe_agrees"}


def test_a_begin_that_cannot_be_called_is_told_its_form() -> None:
    class Named(Drift):
        def begin(self, rng: jax.Array, **episode: jax.Array) -> DriftState:  # pyright: ignore
            return DriftState(x=rng, **episode)

    class Failing(Drift):
        def begin(self, key: jax.Array, **episode: jax.Array) -> DriftState:
            raise TypeError("of its own")

    with pytest.raises(TypeError, match=r"Named: expected `begin\(self, key, \*\*episode\)`; got"):
        Named().reset(KEY)
    with pytest.raises(TypeError, match="of its own"):
        Failing().reset(KEY)


def test_it_is_stepped_in_a_batch() -> None:
    env = VecEnv(Drift(EnvConfig(max_steps=4)), 3)
    _, steps = envrax.rollout(env, None, envrax.start(env, KEY), 8)
    assert steps.truncated[3::4].all() and steps.truncated.sum() == 6


class Counts(Drift):
    """Counts the step too, and says that it is over: the base does both."""

    def advance(self, state: DriftState, action: Any) -> Any:
        state, reward, _ = super().advance(state, action)
        return state.replace(step=state.step + 1, done=jnp.bool_(True)), reward, False


def test_the_base_alone_counts_and_ends() -> None:
    obs, state = Counts().reset(KEY)
    _, state, _, done, info = Counts().step(state, 0)
    assert (state.step, state.done, done) == (1, False, False)
    assert info["terminated"].dtype == bool and not info["terminated"]


class OwnLimit(Drift):
    def at_limit(self, state: DriftState) -> jax.Array:
        return state.x > 0.5


def test_at_limit_truncates() -> None:
    state = OwnLimit().reset(KEY)[1]
    for x in (0.4, 0.6):
        info = OwnLimit().step(state.replace(x=jnp.float32(x)), 0)[-1]
        assert info["truncated"] == (x > 0.5) and not info["terminated"]


class FiveValues(Drift):
    def advance(self, state: DriftState, action: Any) -> Any:
        state, reward, terminated = super().advance(state, action)
        return state.x, state, reward, terminated, {}


def test_what_advance_returns_is_checked() -> None:
    expected = r"FiveValues: expected advance to return a tuple \(state, reward, terminated\); got"
    with pytest.raises(TypeError, match=expected):
        FiveValues().step(FiveValues().reset(KEY)[1], 0)


def _ending(terminated: Any) -> Any:
    return lambda self, state, action: (state, jnp.float32(0), terminated)


@pytest.mark.parametrize(
    ("method", "function", "expected"),
    [
        ("begin", lambda self, key, **episode: (1, 2), "the state alone, an EnvState; got (1, 2)"),
        ("advance", lambda self, s, a: (jnp.float32(0), s, False), "(state, reward, terminated)"),
        ("advance", _ending(1), "terminated as a bool scalar; got 1"),
        ("advance", _ending(None), "terminated as a bool scalar; got None"),
        ("advance", _ending({"a": True}), "terminated as a bool scalar; got {'a': True}"),
        ("advance", _ending(jnp.zeros(2, bool)), "terminated as a bool scalar; got"),
        ("info", lambda self, s: {"truncated": s.x > 0}, "a dict without `terminated` and"),
        ("info", lambda self, s: s.x, "a dict without `terminated` and `truncated`"),
    ],
)
def test_what_else_is_returned_is_said(method: str, function: Any, expected: str) -> None:
    env: Any = type("Odd", (Drift,), {method: function})()
    with pytest.raises(TypeError, match=re.escape(f"Odd: expected {method} to return {expected}")):
        env.step(env.reset(KEY)[1], 0)


class ForgetsItsKey(Drift):
    def advance(self, state: DriftState, action: Any) -> Any:
        new, reward, terminated = super().advance(state, action)
        return new.replace(rng=state.rng), reward, terminated


class IntReward(Drift):
    def advance(self, state: DriftState, action: Any) -> Any:
        state, _, terminated = super().advance(state, action)
        return state, jnp.int32(1), terminated


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (ForgetsItsKey, "key_moves_on"),
        pytest.param(IntReward, "reward_is_a_float", marks=pytest.mark.slow),
    ],
)
def test_what_can_be_broken_is_found(broken: Any, rule: str) -> None:
    assert rule in {finding.rule for finding in report_env(broken()).findings}
