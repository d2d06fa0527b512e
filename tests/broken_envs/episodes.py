"""Environments that break a rule on the values of an episode."""

from typing import Any

import jax
import jax.numpy as jnp

from broken_envs.drift import F32, Drift, DriftConfig, Edited
from envrax import Box, Dict, Discrete, EnvState, EpisodicEnv, RecordEpisodeStatistics, Wrapper


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


class ReallyEnded(Drift):
    """Its own `reset_after` tells an end of play from any other state."""

    def ended(self, state: Any) -> Any:
        return state.step >= self.config.max_steps


class DoneAfterARealEnd(ReallyEnded):
    def reset_after(self, state: Any) -> Any:
        obs, first = super().reset_after(state)
        return obs, first.replace(done=self.ended(state))


class CountsOnAfterARealEnd(ReallyEnded):
    def reset_after(self, state: Any) -> Any:
        obs, first = super().reset_after(state)
        return obs, first.replace(step=-self.ended(state).astype(jnp.int32))


class StepIsNotCounted(Edited):
    def edit(self, obs: Any, state: Any, *rest: Any) -> Any:
        return obs, state.replace(step=jnp.minimum(state.step, 3)), *rest


class EndsAStepTooLate(Drift):
    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, _, info = super().step(state, action)
        done = state.step > self.config.max_steps
        return obs, state.replace(done=done), reward, done, {**info, "truncated": done}


class StepIsAFloat(Drift):
    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return obs, state.replace(step=jnp.float32(0))


class CounterStandsStill(Drift):
    @property
    def observation_space(self) -> Any:
        return Dict({"place": super().observation_space, "step_count": Discrete(7)})

    def observe(self, state: Any) -> Any:
        return {"place": state.place, "step_count": jnp.int32(0)}


class AdvanceEnds(EpisodicEnv[Any, Any, EnvState, DriftConfig]):
    @property
    def observation_space(self) -> Any:
        return Box(0, 10, (), jnp.int32)

    @property
    def action_space(self) -> Any:
        return Discrete(3)

    def begin(self, key: jax.Array, **episode: jax.Array) -> EnvState:
        return EnvState(**episode)

    def advance(self, state: EnvState, action: Any) -> Any:
        return state.replace(done=state.step > 2), jnp.float32(1), False

    def observe(self, state: EnvState) -> Any:
        return state.step


class AdvanceSkips(AdvanceEnds):
    def advance(self, state: EnvState, action: Any) -> Any:
        return state.replace(step=state.step + 4), jnp.float32(1), False


class RewardIsAnInteger(Edited):
    def edit(self, obs: Any, state: Any, reward: Any, *rest: Any) -> Any:
        return obs, state, jnp.int32(1), *rest


class RewardIsAVector(Edited):
    def edit(self, obs: Any, state: Any, reward: Any, *rest: Any) -> Any:
        return obs, state, state.place, *rest


class RewardIsNaN(Edited):
    def edit(self, obs: Any, state: Any, reward: Any, *rest: Any) -> Any:
        return obs, state, jnp.where(state.step == 5, jnp.nan, reward), *rest


class EndHasNoReason(Edited):
    def edit(self, *returned: Any) -> Any:
        return *returned[:4], {"terminated": jnp.bool_(False), "truncated": jnp.bool_(False)}


class TruncatedIsNotDone(Edited):
    """Late, so that a short check has to run on to see it."""

    def __init__(self) -> None:
        super().__init__(DriftConfig(max_steps=40))

    def edit(self, obs: Any, state: Any, reward: Any, done: Any, info: Any) -> Any:
        return obs, state, reward, done, {**info, "truncated": state.step >= 25}


class EndHasOneReason(Edited):
    def edit(self, obs: Any, state: Any, reward: Any, done: Any, info: Any) -> Any:
        return obs, state, reward, done, {"terminated": done}


class LimitHasNoReason(Edited):
    def edit(self, *returned: Any) -> Any:
        return *returned[:4], {}


class LimitBeyondReachHasNoReason(Drift):
    """Random play ends each episode long before the limit."""

    def __init__(self) -> None:
        super().__init__(DriftConfig(max_steps=400))

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, limit, _ = super().step(state, action)
        done = limit | (jnp.abs(state.place[0]) > 2)
        return obs, state.replace(done=done), reward, done, {}


class LimitIsHardCoded(Drift):
    """It ends at step 4, whatever the config says."""

    def __init__(self) -> None:
        super().__init__(DriftConfig(max_steps=30))

    def is_limit(self, step: Any) -> Any:
        return step >= 4

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, _, info = super().step(state, action)
        done = self.is_limit(state.step)
        return obs, state.replace(done=done), reward, done, {**info, "truncated": done}


class LimitIsOneStep(LimitIsHardCoded):
    def is_limit(self, step: Any) -> Any:
        return (step == 4) | (step >= 30)


class LimitIsOneEarly(LimitIsHardCoded):
    def is_limit(self, step: Any) -> Any:
        return step >= self.config.max_steps - 1


class LimitHasACounter(Drift):
    """It ends at step 12, counted in a field of its own, and a short check runs on to see it."""

    def __init__(self) -> None:
        super().__init__(DriftConfig(max_steps=30))

    def next_extra(self, extra: Any) -> Any:
        return extra + 1

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, _, info = super().step(state, action)
        done = (state.extra >= 12) | (state.step >= 30)
        return obs, state.replace(done=done), reward, done, {**info, "truncated": done}


class LimitIsOfTheDefault(LimitIsHardCoded):
    """Its limit is that of its config, which is also the only one that it can have."""

    def __init__(self, config: DriftConfig | None = None) -> None:
        Drift.__init__(self, config or DriftConfig(max_steps=30))

    def is_limit(self, step: Any) -> Any:
        return step >= 30


class LimitIsOfACounter(LimitIsOfTheDefault):
    def next_extra(self, extra: Any) -> Any:
        return extra + 1

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, _, info = Drift.step(self, state, action)
        done = state.extra >= 30
        return obs, state.replace(done=done), reward, done, {**info, "truncated": done}


class _EndsEarly(Wrapper[Any, Any, Any, Any]):
    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, done, info = super().step(state, action)
        over = state.step >= 3
        info = {**info, "truncated": info["truncated"] | over}
        return obs, state.replace(done=state.done | over), reward, done | over, info


def EndIsNotCounted() -> Any:
    """A wrapper that ends episodes, around the statistics."""
    _EndsEarly.__name__ = "EndIsNotCounted"
    return _EndsEarly(RecordEpisodeStatistics(Drift()))


BROKEN: dict[str, list[Any]] = {
    "done_is_a_flag": [DoneIsAFloat, StateIsNeverDone, DoneAtReset, DoneAfterARealEnd],
    "step_counts": [
        StepIsNotCounted,
        CountsOnAfterARealEnd,
        EndsAStepTooLate,
        StepIsAFloat,
        AdvanceEnds,
        AdvanceSkips,
    ],
    "observed_counters_count": [CounterStandsStill],
    "reward_is_a_float": [RewardIsAnInteger, RewardIsAVector, RewardIsNaN],
    "ends_have_reasons": [EndHasNoReason, TruncatedIsNotDone, EndHasOneReason],
    "limits_have_reasons": [LimitHasNoReason, LimitBeyondReachHasNoReason],
    "limit_is_in_the_config": [
        LimitIsHardCoded,
        LimitIsOneStep,
        LimitIsOneEarly,
        LimitHasACounter,
        LimitIsOfTheDefault,
        LimitIsOfACounter,
    ],
    "statistics_see_each_end": [EndIsNotCounted],
}
