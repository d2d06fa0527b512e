"""Wrappers around envs that keep no promise."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import ScriptEnv
from helpers import slow_but

from envrax import (
    ClipReward,
    EnvState,
    EpisodeDiscount,
    ExpandDims,
    FrameStackObservation,
    JitWrapper,
    NanGuard,
    RecordEpisodeStatistics,
    VecEnv,
    Wrapper,
)

KEY = jax.random.key(0)
ZERO = jnp.int32(0)


class Forgetful(ScriptEnv):
    """Returns done, and never sets it in its state."""

    def step(self, state: EnvState, action: Any) -> tuple[Any, ...]:
        obs, state, reward, done, info = super().step(state, action)
        return obs, state.replace(done=jnp.bool_(False)), reward, done, info


class Secretive(ScriptEnv):
    """Sets done in its state, and returns a Python False."""

    def step(self, state: EnvState, action: Any) -> tuple[Any, ...]:
        obs, state, reward, done, info = super().step(state, action)
        return obs, state, reward, False, info


class Homely(ScriptEnv):
    """NumPy observations, Python numbers and bools everywhere."""

    def reset(self, rng: jax.Array) -> tuple[Any, EnvState]:
        return np.zeros(2, np.float32), EnvState(rng=rng, step=0, done=False)  # pyright: ignore

    def step(self, state: EnvState, action: Any) -> tuple[Any, ...]:
        state = state.replace(step=state.step + 1, done=True)
        return np.ones(2, np.float32), state, 1.5, True, {"truncated": True}


AROUND: list[Any] = [Wrapper, ExpandDims, EpisodeDiscount, ClipReward, RecordEpisodeStatistics]


@pytest.mark.parametrize("env_class", [Forgetful, Secretive])
@pytest.mark.parametrize("wrapper", AROUND)
def test_either_done_ends_the_episode(env_class: Any, wrapper: Any) -> None:
    env = wrapper(env_class(rewards=(1.0, 1.0, 1.0)))
    _, state = env.reset(KEY)
    for expected in (False, False, True):
        _, state, *_ = env.step(state, ZERO)
        assert state.done.shape == () and state.done.dtype == jnp.bool_
        assert bool(state.done) is expected


@pytest.mark.parametrize("env_class", [Forgetful, Secretive])
def test_either_done_begins_the_next_episode(env_class: Any) -> None:
    env = env_class(rewards=(1.0, 1.0, 1.0))
    vec_env = VecEnv(RecordEpisodeStatistics(EpisodeDiscount(ExpandDims(ClipReward(env)))), 2)
    _, states = vec_env.reset(KEY)
    for step in (1, 2, 0, 1, 2, 0):
        _, states, *_ = vec_env.step(states, jnp.zeros(2, jnp.int32))
        assert states.step.tolist() == [step] * 2
        assert not states.done.any()


@pytest.mark.parametrize(
    "wrapper",
    [
        *slow_but(RecordEpisodeStatistics, EpisodeDiscount, values=AROUND),
        lambda env: JitWrapper(env, pre_warm=False),
    ],
)
def test_python_and_numpy_values_are_taken(wrapper: Any) -> None:
    env = wrapper(Homely())
    stack = FrameStackObservation(RecordEpisodeStatistics(env), n_stack=2)
    for wrapped in (env, stack):
        _, state = wrapped.reset(KEY)
        for step in (wrapped.step, jax.jit(wrapped.step)):
            _, after, reward, done, info = step(state, 0)
            assert bool(after.done)
            assert np.ravel(reward)[0] in (1.0, 1.5)


def test_python_and_numpy_values_are_taken_in_a_batch() -> None:
    env = RecordEpisodeStatistics(EpisodeDiscount(ExpandDims(ClipReward(Wrapper(Homely())))))
    vec_env = VecEnv(env, 2)
    obs, states = vec_env.reset(KEY)
    obs, states, *_ = vec_env.step(states, jnp.zeros(2, jnp.int32))
    assert states.step.tolist() == [0, 0] and (obs == 0).all()


class FloatDone(ScriptEnv):
    def step(self, state: EnvState, action: Any) -> tuple[Any, ...]:
        obs, state, reward, done, info = super().step(state, action)
        return obs, state, reward, done.astype(jnp.float32), info


class LongDone(ScriptEnv):
    def step(self, state: EnvState, action: Any) -> tuple[Any, ...]:
        obs, state, reward, done, info = super().step(state, action)
        return obs, state, reward, done[None], info


class FloatStateDone(ScriptEnv):
    def step(self, state: EnvState, action: Any) -> tuple[Any, ...]:
        obs, state, reward, done, info = super().step(state, action)
        return obs, state.replace(done=done.astype(jnp.float32)), reward, done, info


@pytest.mark.parametrize(
    ("env_class", "said"),
    [
        (FloatDone, r"FloatDone\.step: expected done of shape \(\), bool; got \(\) float32"),
        (LongDone, r"LongDone\.step: expected done of shape \(\), bool; got \(1,\) bool"),
        (FloatStateDone, r"FloatStateDone\.step: expected new_state\.done .*; got \(\) float32"),
    ],
)
@pytest.mark.parametrize("wrapper", [*AROUND, lambda env: FrameStackObservation(ClipReward(env))])
def test_done_that_is_no_bool_is_refused(env_class: Any, said: str, wrapper: Any) -> None:
    env = wrapper(env_class())
    _, state = env.reset(KEY)
    for step in (env.step, jax.jit(env.step)):
        with pytest.raises(TypeError, match=said + r".*Return one bool"):
            step(state, ZERO)


def compiled_later(env: Any) -> Any:
    return JitWrapper(env, pre_warm=False)


class Sloppy(RecordEpisodeStatistics[Any, Any, Any, Any]):
    def __init__(self, env: Any, which: str = "on_step") -> None:
        super().__init__(env)
        self.which = which

    def on_reset(self, obs: Any) -> Any:
        return super().on_reset(obs)[1] if self.which == "on_reset" else super().on_reset(obs)

    def on_step(self, *given: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None if self.which == "on_step" else super().on_step(*given)


@pytest.mark.parametrize("around", [lambda env: env, compiled_later, RecordEpisodeStatistics])
@pytest.mark.parametrize("which", ["on_reset", "on_step"])
def test_the_layer_that_returns_something_else_is_named(around: Any, which: str) -> None:
    env = around(Sloppy(ScriptEnv(rewards=(1.0, 1.0)), which=which))
    with pytest.raises(TypeError, match=rf"Sloppy: expected {which} to return a tuple \(obs"):
        VecEnv(env, 2).step(VecEnv(env, 2).reset(KEY)[1], jnp.zeros(2, jnp.int32))


class Telling(ScriptEnv):
    """Has info under the names that wrappers use."""

    def step(self, state: EnvState, action: Any) -> tuple[Any, ...]:
        info = {"episode": jnp.int32(3), "non_finite": jnp.bool_(False)}
        return (*super().step(state, action)[:4], info)


@pytest.mark.parametrize(
    ("wrapper", "name"), [(RecordEpisodeStatistics, "episode"), (NanGuard, "non_finite")]
)
def test_info_of_the_environments_own_is_not_overwritten(wrapper: Any, name: str) -> None:
    for env in (wrapper(Telling()), wrapper(ClipReward(wrapper(Telling())))):
        _, state = env.reset(KEY)
        for step in (env.step, jax.jit(env.step)):
            said = rf"{wrapper.__name__}\.step: expected info without '{name}'.*Telling\(.*name\."
            with pytest.raises(ValueError, match=said):
                step(state, ZERO)


class Short(ScriptEnv):
    def step(self, state: EnvState, action: Any) -> Any:
        return super().step(state, action)[:4]


@pytest.mark.parametrize("around", [Wrapper, NanGuard, compiled_later, RecordEpisodeStatistics])
def test_an_environment_beneath_wrappers_is_named(around: Any) -> None:
    env = around(Short())
    with pytest.raises(TypeError, match=r"Short: expected step to return a tuple \(obs"):
        env.step(env.reset(KEY)[1], ZERO)
