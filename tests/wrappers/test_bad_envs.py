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
    NanGuard,
    RecordEpisodeStatistics,
    VecEnv,
    Wrapper,
)

KEY = jax.random.key(0)
ZERO = jnp.int32(0)


class Changing(ScriptEnv):
    """Hands what a step returns through a function of the test's."""

    def __init__(self, change: Any) -> None:
        super().__init__(rewards=(1.0, 1.0, 1.0))
        self.change = change

    def step(self, state: EnvState, action: Any) -> Any:
        return self.change(*super().step(state, action))


def forgetful(obs: Any, state: Any, reward: Any, done: Any, info: Any) -> Any:
    """Returns done, and never sets it in the state."""
    return obs, state.replace(done=jnp.bool_(False)), reward, done, info


def secretive(obs: Any, state: Any, reward: Any, done: Any, info: Any) -> Any:
    """Sets done in the state, and returns a Python False."""
    return obs, state, reward, False, info


AROUND: list[Any] = [Wrapper, ExpandDims, EpisodeDiscount, ClipReward, RecordEpisodeStatistics]


@pytest.mark.parametrize("change", [forgetful, secretive])
@pytest.mark.parametrize("wrapper", AROUND)
def test_either_done_ends_the_episode(change: Any, wrapper: Any) -> None:
    env = wrapper(Changing(change))
    _, state = env.reset(KEY)
    for expected in (False, False, True):
        _, state, *_ = env.step(state, ZERO)
        assert state.done.shape == () and state.done.dtype == jnp.bool_
        assert bool(state.done) is expected


class Homely(ScriptEnv):
    """NumPy observations, Python numbers and bools everywhere."""

    def reset(self, rng: jax.Array) -> tuple[Any, EnvState]:
        return np.zeros(2, np.float32), EnvState(rng=rng, step=0, done=False)  # pyright: ignore

    def step(self, state: EnvState, action: Any) -> tuple[Any, ...]:
        state = state.replace(step=state.step + 1, done=True)
        return np.ones(2, np.float32), state, 1.5, True, {"truncated": True}


def test_python_and_numpy_values_are_taken() -> None:
    env = JitWrapper(ExpandDims(ClipReward(Wrapper(Homely()))), pre_warm=False)
    env = EpisodeDiscount(RecordEpisodeStatistics(FrameStackObservation(env, n_stack=2)))
    _, after, reward, discount, _ = jax.jit(lambda rng: env.step(env.reset(rng)[1], 0))(KEY)
    assert bool(after.done) and reward.tolist() == [1.0] and discount.tolist() == [0.0]
    vec_env = VecEnv(env, 2)
    obs, states = vec_env.reset(KEY)
    obs, states, *_ = vec_env.step(states, jnp.zeros(2, jnp.int32))
    assert states.step.tolist() == [0, 0] and (obs == 0).all()


BAD: dict[str, Any] = {
    "float32": lambda obs, state, reward, done, info: (obs, state, reward, jnp.float32(1), info),
    r"\(1,\) bool": lambda obs, state, reward, done, info: (obs, state, reward, done[None], info),
    "state.done": lambda obs, state, *rest: (obs, state.replace(done=jnp.float32(1)), *rest),
}


@pytest.mark.parametrize("noun", BAD)
@pytest.mark.parametrize("wrapper", [Wrapper, ExpandDims, EpisodeDiscount, RecordEpisodeStatistics])
def test_done_that_is_no_bool_is_refused(noun: str, wrapper: Any) -> None:
    env = wrapper(Changing(BAD[noun]))
    with pytest.raises(TypeError, match=rf"Changing.*{noun}"):
        env.step(env.reset(KEY)[1], ZERO)


@pytest.mark.parametrize(
    ("wrapper", "name"), [(RecordEpisodeStatistics, "episode"), (NanGuard, "non_finite")]
)
def test_info_of_the_environments_own_is_not_overwritten(wrapper: Any, name: str) -> None:
    telling = Changing(lambda *out: (*out[:4], {name: jnp.bool_(True)}))
    for env in (wrapper(telling), wrapper(ClipReward(wrapper(telling)))):
        with pytest.raises(ValueError, match=name):
            env.step(env.reset(KEY)[1], ZERO)


class Sloppy(RecordEpisodeStatistics[Any, Any, Any, Any]):
    def on_step(self, *given: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None


def test_the_layer_that_returns_something_else_is_named() -> None:
    for env in (Sloppy(ScriptEnv()), RecordEpisodeStatistics(Sloppy(ScriptEnv()))):
        with pytest.raises(TypeError, match="Sloppy"):
            env.step(env.reset(KEY)[1], ZERO)
    env = RecordEpisodeStatistics(Changing(lambda *out: out[:4]))
    with pytest.raises(TypeError, match="Changing"):
        env.step(env.reset(KEY)[1], ZERO)
