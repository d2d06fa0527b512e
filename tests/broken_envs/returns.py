"""Environments that break a rule on what `reset`, `step` and `render` return."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from broken_envs.drift import F32, Drift, DriftState, Edited


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


class InfoHasANumberAsKey(Edited):
    def edit(self, *returned: Any) -> Any:
        return *returned[:4], {**returned[4], 1: returned[2]}


class InfoHasAText(Edited):
    def edit(self, *returned: Any) -> Any:
        return *returned[:4], {**returned[4], "mood": "good"}


class InfoGainsAKey(Edited):
    def edit(self, obs: Any, state: Any, reward: Any, done: Any, info: Any) -> Any:
        if not isinstance(state.step, Tracer) and state.step > 1:
            info["late"] = reward
        return obs, state, reward, done, info


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


class NextEpisodeIsOver(Drift):
    def reset_after(self, state: DriftState) -> Any:
        obs, first = super().reset_after(state)
        return obs, first.replace(done=state.done | True)


class NextEpisodeCountsOn(Drift):
    def reset_after(self, state: DriftState) -> Any:
        obs, first = super().reset_after(state)
        return obs, first.replace(step=state.step)


class NextEpisodeHasAnotherDtype(Drift):
    def reset_after(self, state: DriftState) -> Any:
        obs, first = super().reset_after(state)
        return obs, first.replace(extra=jnp.int32(1))


class NextEpisodeIsAState(Drift):
    def reset_after(self, state: DriftState) -> Any:
        return super().reset_after(state)[1]


class NextEpisodeLiesOutside(Drift):
    def reset_after(self, state: DriftState) -> Any:
        obs, first = super().reset_after(state)
        return obs + 100.0, first


class ObservationIsThatOfTheLastState(Drift):
    def observe(self, state: DriftState) -> Any:
        return state.place

    def step(self, state: DriftState, action: Any) -> Any:
        _, new, *rest = super().step(state, action)
        return self.observe(state), new, *rest


class FirstObservationIsNotThatOfTheState(Drift):
    def observe(self, state: DriftState) -> Any:
        return state.place

    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return obs + F32(1), state


class SomeFirstObservationsAreOthers(Drift):
    def observe(self, state: DriftState) -> Any:
        return state.place

    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return jnp.where(state.place > 0.1, obs + F32(1), obs), state


class NextEpisodeHasTheObservationOfTheLast(Drift):
    def observe(self, state: DriftState) -> Any:
        return state.place

    def reset_after(self, state: DriftState) -> Any:
        return self.observe(state), super().reset_after(state)[1]


class ImageIsAFloat(Drift):
    def render(self, state: DriftState) -> np.ndarray:
        return np.zeros((4, 5, 3))


class ImageGrows(Drift):
    def render(self, state: DriftState) -> np.ndarray:
        return np.zeros((4 + int(state.step), 5, 3), np.uint8)


class ImageIsAFloatLater(Drift):
    def render(self, state: DriftState) -> np.ndarray:
        image = np.ones((4, 5, 3), np.uint8)
        return 0.5 * image if state.step else image


class ImageGrowsLater(Drift):
    def render(self, state: DriftState) -> np.ndarray:
        return np.zeros((4 + 4 * int(state.step > 4), 5, 3), np.uint8)


class ImageIsMissingAtTheEnd(Drift):
    def render(self, state: DriftState) -> np.ndarray:
        if state.done:
            raise ValueError("there is nothing left to draw")
        return np.zeros((4, 5, 3), np.uint8)


class ImageEditsTheState(Drift):
    def render(self, state: DriftState) -> np.ndarray:
        state.place += 1
        return np.zeros((4, 5, 3), np.uint8)


BROKEN: dict[str, list[Any]] = {
    "reset_returns": [ResetGivesTheObservationAlone, StateIsADict],
    "step_returns": [StepGivesFour, StepRaises, InfoIsNone, InfoHasANumberAsKey],
    "reset_after_begins_an_episode": [
        NextEpisodeIsOver,
        NextEpisodeCountsOn,
        NextEpisodeHasAnotherDtype,
        NextEpisodeIsAState,
        NextEpisodeLiesOutside,
    ],
    "info_is_fixed": [InfoHasAText, InfoGainsAKey],
    "reset_and_step_agree": [
        StateChangesDtype,
        StateIsAPythonNumber,
        StateIsWeakAtReset,
        StateGrows,
    ],
    "observe_agrees": [
        ObservationIsThatOfTheLastState,
        FirstObservationIsNotThatOfTheState,
        SomeFirstObservationsAreOthers,
        NextEpisodeHasTheObservationOfTheLast,
    ],
    "render_is_an_image": [
        ImageIsAFloat,
        ImageGrows,
        ImageIsAFloatLater,
        ImageGrowsLater,
        ImageIsMissingAtTheEnd,
        ImageEditsTheState,
    ],
}
