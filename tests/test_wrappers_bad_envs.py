"""Wrappers around envs that keep no promise."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import ScriptEnv

from envrax import (
    ClipReward,
    EnvState,
    EpisodeDiscount,
    ExpandDims,
    FrameStackObservation,
    JitWrapper,
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
    vec_env = VecEnv(env, 2)
    _, states = vec_env.reset(KEY)
    for step in (1, 2, 0, 1, 2, 0):
        _, states, *_ = vec_env.step(states, jnp.zeros(2, jnp.int32))
        assert states.step.tolist() == [step] * 2
        assert not states.done.any()


@pytest.mark.parametrize("wrapper", [*AROUND, lambda env: JitWrapper(env, pre_warm=False)])
def test_python_and_numpy_values_are_taken(wrapper: Any) -> None:
    env = wrapper(Homely())
    for wrapped in (env, RecordEpisodeStatistics(env), FrameStackObservation(env, n_stack=2)):
        _, state = wrapped.reset(KEY)
        for step in (wrapped.step, jax.jit(wrapped.step)):
            _, after, reward, done, info = step(state, 0)
            assert bool(after.done)
            assert np.ravel(reward)[0] in (1.0, 1.5)
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
