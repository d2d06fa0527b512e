"""Environments that break exactly one rule of `envrax.testing` each, a rule of form."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.core import Tracer

from envrax import Box, Dict, Discrete, EnvConfig, EnvState, JaxEnv, Space
from envrax.testing import ConformanceError, Finding, check_env

F32 = jnp.float32


@chex.dataclass
class DriftState(EnvState):
    place: jax.Array
    extra: Any


@chex.dataclass
class DriftConfig(EnvConfig):
    max_steps: int = 6


class Drift(JaxEnv[Any, Any, DriftState, DriftConfig]):
    """A place that is pushed by the action and by chance. It keeps every rule."""

    @property
    def observation_space(self) -> Any:
        return Box(-20.0, 20.0, (2,))

    @property
    def action_space(self) -> Any:
        return Discrete(3)

    def observe(self, state: DriftState) -> Any:
        return state.place

    def extra(self) -> Any:
        return jnp.float32(0)

    def next_extra(self, extra: Any) -> Any:
        return extra

    def reset(self, rng: jax.Array) -> Any:
        rng, key = jax.random.split(rng)
        place = jax.random.uniform(key, (2,), F32)
        begun = dict(rng=rng, step=jnp.int32(0), done=jnp.bool_(False))
        state = DriftState(place=place, extra=self.extra(), **begun)
        return self.observe(state), state

    def step(self, state: DriftState, action: Any) -> Any:
        rng, key = jax.random.split(state.rng)
        push = jnp.asarray(action).astype(F32) - 1.0
        place = jnp.clip(state.place + push + jax.random.uniform(key, (2,), F32), -20.0, 20.0)
        step = state.step + 1
        done = step >= self.config.max_steps
        extra = self.next_extra(state.extra)
        state = state.replace(rng=rng, step=step, done=done, place=place, extra=extra)
        info = {"terminated": jnp.bool_(False), "truncated": done}
        return self.observe(state), state, place[0], done, info

    def render(self, state: DriftState) -> np.ndarray:
        return np.zeros((4, 5, 3), np.uint8)


class Edited(Drift):
    """A step whose outcome is edited."""

    edit: Any  # what a step returns, one by one, to what it returns instead

    def step(self, state: DriftState, action: Any) -> Any:
        return self.edit(*super().step(state, action))


# --- spaces_are_legal -----------------------------------------------------------------------------


class SpaceIsAnInt(Drift):
    @property
    def action_space(self) -> Any:
        return 3


class SpaceIsNeverTheSame(Drift):
    bounds: Iterator[float] = itertools.cycle((20.0, 30.0))

    @property
    def observation_space(self) -> Any:
        return Box(-20.0, next(self.bounds), (2,))


@dataclass(frozen=True)
class Crooked(Space):
    shape: Any = ()
    dtype: Any = np.int32

    def sample(self, rng: jax.Array) -> Any:
        return jnp.int32(7)

    def contains(self, x: Any) -> Any:
        return x < 3

    def batch(self, n: int) -> Space:
        return Discrete(3).batch(n)


class SampleLiesOutside(Drift):
    @property
    def action_space(self) -> Any:
        return Crooked()


# --- reset_returns, step_returns ------------------------------------------------------------------


class ResetGivesTheObservationAlone(Drift):
    def reset(self, rng: jax.Array) -> Any:
        return super().reset(rng)[0]


class StateIsADict(Drift):
    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return obs, dict(vars(state))


class StepGivesFour(Edited):
    def edit(self, *returned: Any) -> Any:
        return returned[:4]


class StepRaises(Drift):
    def step(self, state: DriftState, action: Any) -> Any:
        raise RuntimeError("the motor is not plugged in")


class InfoIsNone(Edited):
    def edit(self, *returned: Any) -> Any:
        return *returned[:4], None


# --- observations_are_in_the_space ----------------------------------------------------------------


class ObservationIsAnInteger(Drift):
    def observe(self, state: DriftState) -> Any:
        return state.place.astype(jnp.int32)


class ObservationHasAnotherShape(Drift):
    def observe(self, state: DriftState) -> Any:
        return state.place[None]


class ObservationLeavesTheBox(Drift):
    """Only towards the end of an episode."""

    def observe(self, state: DriftState) -> Any:
        return jnp.where(state.step == 5, 100.0, state.place)


class ObservationLacksAKey(Drift):
    @property
    def observation_space(self) -> Any:
        return Dict(place=Box(-20.0, 20.0, (2,)), time=Box(0.0, 9.0, ()))

    def observe(self, state: DriftState) -> Any:
        return {"place": state.place}


# --- reset_and_step_agree -------------------------------------------------------------------------


class StateChangesDtype(Drift):
    def next_extra(self, extra: Any) -> Any:
        return jnp.int32(1)


class StateIsAPythonNumber(Drift):
    def extra(self) -> Any:
        return 0.0


class StateIsWeakAtReset(Drift):
    def extra(self) -> Any:
        return jnp.asarray(0.0)

    def next_extra(self, extra: Any) -> Any:
        return jnp.float32(1)


class StateGrows(Drift):
    def extra(self) -> Any:
        return jnp.zeros((1,), F32)

    def next_extra(self, extra: Any) -> Any:
        return jnp.append(extra, F32(1))


# --- done_is_a_flag -------------------------------------------------------------------------------


class DoneIsAFloat(Edited):
    def edit(self, obs: Any, state: Any, reward: Any, done: Any, info: Any) -> Any:
        return obs, state, reward, done.astype(F32), info


class StateIsNeverDone(Edited):
    def edit(self, obs: Any, state: Any, reward: Any, done: Any, info: Any) -> Any:
        return obs, state.replace(done=jnp.bool_(False)), reward, done, info


class DoneAtReset(Drift):
    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return obs, state.replace(done=jnp.bool_(True))


# --- step_counts ----------------------------------------------------------------------------------


class StepIsNotCounted(Edited):
    def edit(self, obs: Any, state: Any, *rest: Any) -> Any:
        return obs, state.replace(step=jnp.minimum(state.step, 3)), *rest


class StepIsAFloat(Drift):
    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return obs, state.replace(step=jnp.float32(0))


# --- reward_is_a_float ----------------------------------------------------------------------------


class RewardIsAnInteger(Edited):
    def edit(self, obs: Any, state: Any, reward: Any, *rest: Any) -> Any:
        return obs, state, jnp.int32(1), *rest


class RewardIsAVector(Edited):
    def edit(self, obs: Any, state: Any, reward: Any, *rest: Any) -> Any:
        return obs, state, state.place, *rest


class RewardIsNaN(Edited):
    def edit(self, obs: Any, state: Any, reward: Any, *rest: Any) -> Any:
        return obs, state, jnp.where(state.step == 5, jnp.nan, reward), *rest


# --- info_is_fixed, ends_have_reasons -------------------------------------------------------------


class InfoHasAText(Edited):
    def edit(self, *returned: Any) -> Any:
        return *returned[:4], {**returned[4], "mood": "good"}


class InfoGainsAKey(Edited):
    def edit(self, obs: Any, state: Any, reward: Any, done: Any, info: Any) -> Any:
        if not isinstance(state.step, Tracer) and state.step > 1:
            info["late"] = reward
        return obs, state, reward, done, info


class EndHasNoReason(Edited):
    def edit(self, *returned: Any) -> Any:
        return *returned[:4], {"terminated": jnp.bool_(False), "truncated": jnp.bool_(False)}


class EndHasOneReason(Edited):
    def edit(self, obs: Any, state: Any, reward: Any, done: Any, info: Any) -> Any:
        return obs, state, reward, done, {"terminated": done}


# --- render_is_an_image ---------------------------------------------------------------------------


class ImageIsAFloat(Drift):
    def render(self, state: DriftState) -> np.ndarray:
        return np.zeros((4, 5, 3))


class ImageGrows(Drift):
    def render(self, state: DriftState) -> np.ndarray:
        return np.zeros((4 + int(state.step), 5, 3), np.uint8)


BROKEN: dict[str, list[type[Drift]]] = {
    "spaces_are_legal": [SpaceIsAnInt, SpaceIsNeverTheSame, SampleLiesOutside],
    "reset_returns": [ResetGivesTheObservationAlone, StateIsADict],
    "step_returns": [StepGivesFour, StepRaises, InfoIsNone],
    "info_is_fixed": [InfoHasAText, InfoGainsAKey],
    "observations_are_in_the_space": [
        ObservationIsAnInteger,
        ObservationHasAnotherShape,
        ObservationLeavesTheBox,
        ObservationLacksAKey,
    ],
    "reset_and_step_agree": [
        StateChangesDtype,
        StateIsAPythonNumber,
        StateIsWeakAtReset,
        StateGrows,
    ],
    "done_is_a_flag": [DoneIsAFloat, StateIsNeverDone, DoneAtReset],
    "step_counts": [StepIsNotCounted, StepIsAFloat],
    "reward_is_a_float": [RewardIsAnInteger, RewardIsAVector, RewardIsNaN],
    "ends_have_reasons": [EndHasNoReason, EndHasOneReason],
    "render_is_an_image": [ImageIsAFloat, ImageGrows],
}


def the_one_finding(env_class: Any, rule: str) -> Finding:
    """What `check_env` raises for an environment that breaks one rule."""
    np.random.seed(0)
    with pytest.raises(ConformanceError) as caught:
        check_env(env_class(), num_steps=8, gradients=rule == "gradients_are_finite")
    (finding,) = caught.value.report.findings
    assert finding.rule == rule
    assert str(finding) in str(caught.value)
    return finding


def one_by_default(broken: dict[str, list[type[Drift]]]) -> Any:
    """Parameters: of each rule the first environment, the others are slow."""
    return [
        pytest.param(cls, rule, id=cls.__name__, marks=[pytest.mark.slow] if i else [])
        for rule, env_classes in broken.items()
        for i, cls in enumerate(env_classes)
    ]


def table_row(finding: Finding) -> str:
    """A row of `docs/advanced/checking.md`; the words of other people's errors left out."""
    got = re.sub(r"^(\w+Error: ).*|(held by ).*", r"\1\2…", finding.got)
    where = finding.where.replace("(", "").split(".")[0].split(" ")[0]
    sentence = f"{finding.where}: expected {finding.expected}; got {got}. {finding.fix}"
    return f"| `{where}` | {sentence.replace('|', chr(92) + '|')} |"
