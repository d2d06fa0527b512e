# pyright: basic
"""Ends of which a truncation is none where the episode terminated, however that is written."""

from __future__ import annotations

from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest

import envrax
from envrax.testing import report_env

LIMIT = 6


class StepType:
    FIRST = 0
    MID = 1
    TERMINATED = 2
    TRUNCATED = 3


@chex.dataclass
class Step:
    """As in Stoa."""

    step_type: Any
    reward: Any
    discount: Any
    observation: Any


class Walk:
    """It terminates three steps from zero, from the second step on."""

    max_steps, num_actions = LIMIT, 3
    observation_space = envrax.Box(-50, 50, (), jnp.int32)

    def reset(self, key: Any) -> Any:
        x = jax.random.randint(key, (), -2, 3)
        return x, (x, jnp.int32(0))

    def step(self, key: Any, state: Any, action: Any) -> Any:
        x, t = state[0] + action - 1, state[1] + 1
        return x, (x, t), 1.0, *self.ends(x, t), {}

    def ends(self, x: Any, t: Any) -> Any:
        raise NotImplementedError

    def late(self, t: Any) -> Any:
        return t >= self.max_steps


class AndNot(Walk):
    def ends(self, x: Any, t: Any) -> Any:
        out = abs(x) >= 3
        return out, self.late(t) & ~out


class Where(Walk):
    def ends(self, x: Any, t: Any) -> Any:
        out = abs(x) >= 3
        return out, jnp.where(out, False, self.late(t))


class AndNotTwice(Walk):
    def ends(self, x: Any, t: Any) -> Any:
        return (x >= 3) | (x <= -3), self.late(t) & ~(x >= 3) & ~(x <= -3)


class FromDone(Walk):
    def ends(self, x: Any, t: Any) -> Any:
        out = abs(x) >= 3
        done = out | self.late(t)
        return out, done & (out == 0)


class ByBranches(Walk):
    def ends(self, x: Any, t: Any) -> Any:
        out = abs(x) >= 3
        return out, jax.lax.cond(out, lambda: False, lambda: self.late(t))


class OneFlag(Walk):
    def ends(self, x: Any, t: Any) -> Any:
        out = abs(x) >= 3
        return (out | (self.late(t) & ~out),)


class AfterOneStep(Walk):
    """That it has not just begun follows from the count of steps."""

    def ends(self, x: Any, t: Any) -> Any:
        out = (abs(x) >= 3) & (t > 1)
        return out, self.late(t) & ~out


class AsSteps(Walk):
    """As in Stoa: its type says how a step ended."""

    def reset(self, key: Any) -> Any:
        x, state = super().reset(key)
        return state, self._step(x, StepType.FIRST)

    def step(self, key: Any, state: Any, action: Any) -> Any:
        x, state, *_ = super().step(key, state, action)
        out = abs(x) >= 3
        kind = jnp.where(self.late(state[1]), StepType.TRUNCATED, StepType.MID)
        return state, self._step(x, jnp.where(out, StepType.TERMINATED, kind))

    def ends(self, x: Any, t: Any) -> Any:
        return ()

    def _step(self, x: Any, kind: Any) -> Any:
        one = jnp.float32(1)
        return Step(step_type=jnp.int8(kind), reward=one, discount=one, observation=x)


FORMS = [AndNot, Where, AndNotTwice, FromDone, ByBranches, OneFlag, AfterOneStep, AsSteps]


@pytest.mark.parametrize("form", FORMS)
def test_its_limit_is_counted_and_its_ends_are_those_of_a_simulation(form: Any) -> None:
    env: Any = envrax.wrap(form())
    assert env.config.max_steps == LIMIT
    assert env.unwrapped.reading.facts["limit"] == "6 steps, `max_steps`"
    with pytest.raises(TypeError, match="at most the object's own limit, 6 steps"):
        envrax.wrap(form(), max_steps=LIMIT + 4)

    def episode(key: Any) -> Any:
        obs, state = env.reset(key)

        def one(state: Any, action: Any) -> Any:
            obs, state, _, done, info = env.step(state, action)
            return state, (obs, done, info["terminated"], info["truncated"])

        actions = jax.random.randint(key, (LIMIT,), 0, 3)
        return obs, actions, jax.lax.scan(one, state, actions)[1]

    first, actions, steps = jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(0), 64))
    both = 0
    for i, x in enumerate(first.tolist()):
        for n, action in enumerate(actions[i].tolist(), 1):
            x += action - 1
            out = abs(x) >= 3 and (n > 1 or form is not AfterOneStep)
            expected = [x, out or n == LIMIT, out, n == LIMIT and not out]
            assert [part[i, n - 1].item() for part in steps] == expected
            both += out and n == LIMIT
            if out:
                break
    assert both


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_the_checker_finds_nothing(form: Any) -> None:
    for max_steps in (0, 4):
        assert not report_env(envrax.wrap(form(), max_steps=max_steps)).findings


class Paused(Walk):
    """Its limit ends no episode while it waits, which is no end."""

    def ends(self, x: Any, t: Any) -> Any:
        return abs(x) >= 3, self.late(t) & ~(x == 0)


class PausedInOne(Paused):
    def ends(self, x: Any, t: Any) -> Any:
        out, late = super().ends(x, t)
        return (out | late,)


class OnlyTogether(Walk):
    def ends(self, x: Any, t: Any) -> Any:
        out = abs(x) >= 3
        return (jnp.where(out, self.late(t), False),)


def test_an_end_that_is_left_open_is_not_taken_for_the_limit() -> None:
    assert envrax.recognise(Paused()).facts["limit"] == "not known; the flags tell"
    for peer in (PausedInOne, OnlyTogether):
        with pytest.raises(TypeError, match="more than a counter of steps is compared"):
            envrax.wrap(peer())


class UnnamedLimit(AndNot):
    """Its limit has another name."""

    max_steps = None  # type: ignore[assignment]

    def late(self, t: Any) -> Any:
        return t >= 5


def test_a_limit_under_another_name_is_counted_too() -> None:
    assert envrax.wrap(UnnamedLimit()).config.max_steps == 5
