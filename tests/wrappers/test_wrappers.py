"""What every wrapper passes on, what users write themselves, and envs that keep no promise."""

from typing import Any, Generic

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import PixelEnv, ScriptEnv, VectorConfig, VectorEnv, VectorState
from helpers import assert_trees_equal

import envrax
from envrax import (
    ActionWrapper,
    Box,
    ClipReward,
    Discrete,
    EnvState,
    EpisodeDiscount,
    ExpandDims,
    FrameStackObservation,
    GrayscaleObservation,
    JitWrapper,
    NanGuard,
    ObservationWrapper,
    RecordEpisodeStatistics,
    RewardWrapper,
    StatefulWrapper,
    VecEnv,
    Wrapper,
)
from envrax.env import ActSpaceT, ConfigT, ObsSpaceT
from envrax.wrappers import WrapperState
from envrax.wrappers.stateful import InnerStateT

KEY = jax.random.key(0)
ZERO = jnp.int32(0)

# What users write


class Every(Wrapper[Box, Discrete, VectorState, VectorConfig]):
    """Every hook once."""

    def action(self, action: jax.Array) -> jax.Array:
        return 2 - action

    def observation(self, obs: jax.Array) -> jax.Array:
        return -obs

    def reward(self, reward: jax.Array) -> jax.Array:
        return 2 * reward

    def done(self, done: jax.Array) -> jax.Array:
        return jnp.where(done, jnp.int8(-1), jnp.int8(1))

    def info(self, info: dict[str, Any]) -> dict[str, Any]:
        return {**info, "tag": jnp.int32(7)}


@chex.dataclass
class ScoreState(WrapperState[InnerStateT]):
    score: jax.Array


class Score(
    StatefulWrapper[ObsSpaceT, ActSpaceT, ScoreState[InnerStateT], ConfigT, InnerStateT],
    Generic[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT],
):
    """Rewards count what was gained so far."""

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        return obs, {"score": jnp.float32(0)}

    def on_step(self, obs: Any, state: Any, reward: Any, done: Any, info: Any) -> tuple[Any, ...]:
        score = state.score + reward
        return obs, state.replace(score=score), score, done, info


@chex.dataclass
class PlainState(EnvState):
    env_state: VectorState
    calls: jax.Array


class Calls(StatefulWrapper[Box, Discrete, PlainState, VectorConfig, VectorState]):
    """A state that extends `EnvState` itself, and hooks beside `on_reset` and `on_step`."""

    action, observation = Every.action, Every.observation
    reward, info = Every.reward, Every.info

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        return obs, {"calls": jnp.int32(0)}

    def on_step(self, obs: Any, state: PlainState, *rest: Any) -> tuple[Any, ...]:
        return obs, state.replace(calls=state.calls + 1), *rest


def first_step(env: Any, action: int) -> Any:
    obs, state = env.reset(KEY)
    return obs, env.step(state, jnp.int32(action))


def test_each_hook_changes_what_it_is_for_and_nothing_else() -> None:
    plain_first, (obs, inner, reward, done, info) = first_step(VectorEnv(), 2)
    info = {**info, "tag": jnp.int32(7)}
    expected = (-obs, inner, 2 * reward, jnp.int8(1), info)
    assert_trees_equal(first_step(Every(VectorEnv()), 0), (-plain_first, expected))
    state = PlainState(
        rng=inner.rng, step=inner.step, done=inner.done, env_state=inner, calls=jnp.int32(1)
    )
    expected = (-obs, state, 2 * reward, done, info)
    assert_trees_equal(first_step(Calls(VectorEnv()), 0), (-plain_first, expected))


def test_stateful_wrapper_of_a_few_lines() -> None:
    env = Score(ScriptEnv(rewards=(1.0, 2.0, -5.0)))
    obs, state = env.reset(KEY)
    scores = []
    for _ in range(3):
        obs, state, reward, done, info = env.step(state, ZERO)
        scores.append(float(reward))
    assert scores == [1.0, 3.0, -2.0]
    assert bool(state.done)
    vec_env = VecEnv(env, 2)
    _, states = vec_env.reset(KEY)
    for score in [1.0, 3.0, -2.0, 1.0, 3.0]:  # a new episode counts from zero
        _, states, rewards, _, _ = vec_env.step(states, jnp.zeros(2, jnp.int32))
        assert rewards.tolist() == [score] * 2


@pytest.mark.parametrize("key", [jax.random.key, jax.random.PRNGKey])
def test_stateful_wrapper_forwards_rng_step_and_done(key: Any) -> None:
    env = Score(RecordEpisodeStatistics(VectorEnv(VectorConfig(max_steps=2))))
    obs, state = env.reset(key(1))
    for _ in range(3):
        assert type(state) is ScoreState
        inner = state.env_state.env_state
        assert type(inner) is VectorState
        for name in ("rng", "step", "done"):
            assert_trees_equal(getattr(state, name), getattr(inner, name))
        obs, state, *_ = env.step(state, ZERO)


def test_stateful_wrapper_without_a_state_class_is_refused() -> None:
    class Nameless(StatefulWrapper[Any, Any, Any, Any, Any]):
        on_reset = Score.on_reset
        on_step = Score.on_step

    with pytest.raises(TypeError, match="Nameless does not name a concrete type"):
        Nameless(VectorEnv())


@pytest.mark.parametrize(
    "base", [ObservationWrapper, ActionWrapper, RewardWrapper, StatefulWrapper]
)
def test_hook_bases_want_their_hook(base: Any) -> None:
    with pytest.raises(TypeError, match="abstract"):
        type("Empty", (base,), {})(VectorEnv())


def test_a_space_is_passed_to_the_base_or_is_that_of_the_environment() -> None:
    class Halved(ObservationWrapper[Any, Any, Any, Any]):
        def observation(self, obs: Any) -> Any:
            return obs / 2

    class Mirrored(ActionWrapper[Any, Any, Any, Any]):
        def action(self, action: Any) -> Any:
            return 2 - action

    env, space = VectorEnv(), envrax.Discrete(3)
    assert Halved(env).observation_space == env.observation_space
    assert Mirrored(env).action_space == env.action_space
    assert Halved(env, space).observation_space == space == Mirrored(env, space).action_space


# What a stack passes on


class Noted(PixelEnv):
    compiled = 0

    def compile(self) -> None:
        self.compiled += 1


def deep(env: Any) -> Any:
    env = RecordEpisodeStatistics(Wrapper(env))
    env = FrameStackObservation(GrayscaleObservation(env), n_stack=2)
    return ExpandDims(RecordEpisodeStatistics(ClipReward(env)))


def test_stack_tells_of_the_env_at_its_bottom() -> None:
    inner = Noted(VectorConfig(max_steps=3))
    env = deep(inner)
    assert env.unwrapped is inner
    assert env.name == "Noted"
    assert env.config is inner.config
    assert env.traceable is True
    assert env.action_space == inner.action_space
    assert env.observation_space == Box(0, 255, (12, 10, 2), jnp.uint8)
    assert repr(env).count("(") >= 8 and repr(inner) in repr(env)
    env.compile()
    assert inner.compiled == 1


def test_wrapper_without_hooks_adds_nothing_to_the_program() -> None:
    bare, env = VectorEnv(), Wrapper(Wrapper(VectorEnv()))
    _, state = bare.reset(KEY)
    assert str(jax.make_jaxpr(env.step)(state, ZERO)) == str(jax.make_jaxpr(bare.step)(state, ZERO))


def test_render_goes_through_any_stack() -> None:
    env, bare = JitWrapper(deep(PixelEnv()), pre_warm=False), PixelEnv()
    _, state = env.reset(KEY)
    _, state, *_ = env.step(state, jnp.int32(2))
    _, inner, *_ = first_step(bare, 2)[1]
    np.testing.assert_array_equal(env.render(state), bare.render(inner))
    env = ClipReward(RecordEpisodeStatistics(VectorEnv()))
    with pytest.raises(NotImplementedError, match="VectorEnv"):
        env.render(env.reset(KEY)[1])


def test_info_is_never_changed_in_place() -> None:
    theirs = {"score": np.float32(3), "terminated": np.bool_(False)}

    class OneDict(ScriptEnv):
        def step(self, state: EnvState, action: Any) -> tuple[Any, ...]:
            return (*super().step(state, action)[:4], theirs)

    env = ExpandDims(EpisodeDiscount(RecordEpisodeStatistics(NanGuard(OneDict()))))
    env = RecordEpisodeStatistics(FrameStackObservation(env, n_stack=2))
    for step in (env.step, jax.jit(env.step)):
        info = step(env.reset(KEY)[1], ZERO)[4]
        assert set(info) == {*theirs, "truncated", "episode", "non_finite"}
        assert theirs == {"score": np.float32(3), "terminated": np.bool_(False)}


@pytest.mark.slow
def test_gradients_reach_through_a_stack() -> None:
    state = jax.jit(VectorEnv().reset)(KEY)[1]

    def gain(pos: jax.Array, env: Any) -> jax.Array:
        return env.step(state.replace(pos=pos), jnp.int32(1))[2].sum()

    stack = ExpandDims(JitWrapper(VectorEnv(), pre_warm=False))
    ours, bare = (jax.grad(gain)(state.pos + 1, env) for env in (stack, VectorEnv()))
    assert_trees_equal(ours, bare)
