"""`JitWrapper`: what it compiles, when, and where it is not to be seen."""

import itertools
import os
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import NestedEnv, PixelEnv, ScriptEnv, VectorConfig, VectorEnv
from helpers import assert_trees_close, assert_trees_equal

from envrax import (
    DEFAULT_CACHE_DIR,
    Box,
    ClipReward,
    EnvState,
    FrameStackObservation,
    GrayscaleObservation,
    JitWrapper,
    RecordEpisodeStatistics,
    VecEnv,
    Wrapper,
)

KEY = jax.random.key(0)
ZERO = jnp.int32(0)


class Counting(VectorEnv):
    """Counts how often it is traced, it or a copy; no two are equal."""

    serial = itertools.count()
    traces: ClassVar[dict[int, dict[str, int]]] = {}

    def __init__(self, config: VectorConfig | None = None) -> None:
        super().__init__(config)
        self.number = next(self.serial)
        self.traces[self.number] = {"reset": 0, "step": 0}

    @property
    def traced(self) -> dict[str, int]:
        return self.traces[self.number]

    def reset(self, rng: jax.Array) -> Any:
        self.traced["reset"] += 1
        return super().reset(rng)

    def step(self, state: Any, action: Any) -> Any:
        self.traced["step"] += 1
        return super().step(state, action)


class Weak(ScriptEnv):
    """Everything it returns is weakly typed."""

    def reset(self, rng: jax.Array) -> tuple[Any, EnvState]:
        return jnp.asarray([0.0, 0.0]) * 1, EnvState(rng=rng, step=jnp.asarray(0), done=False)  # pyright: ignore

    def step(self, state: EnvState, action: Any) -> tuple[Any, ...]:
        state = state.replace(step=state.step + 1, done=jnp.asarray(False))
        return jnp.full(2, 1.0), state, jnp.asarray(1.0), jnp.asarray(False), {"x": 2.0}


def play(env: Any, key: Any = jax.random.key, action: Any = ZERO, steps: int = 3) -> Any:
    obs, state = env.reset(key(3))
    rest: list[Any] = []
    for _ in range(steps):
        obs, state, *rest = env.step(state, action)
    return obs, state, rest


def test_results_are_those_of_the_env() -> None:
    grey = FrameStackObservation(GrayscaleObservation(PixelEnv()))
    for inner in (VectorEnv(), grey):
        action = inner.action_space.sample(KEY)
        env = JitWrapper(inner, pre_warm=False)
        assert_trees_close(play(env, action=action), play(inner, action=action), rtol=1e-5)


def test_calls_are_compiled_once(compile_counter: Any) -> None:
    inner = Counting()
    env = JitWrapper(inner, pre_warm=False)
    assert inner.traced == {"reset": 0, "step": 0}
    play(env)
    assert inner.traced == {"reset": 1, "step": 1}
    with compile_counter() as compiled:
        play(env, steps=5)
    assert compiled.count == 0
    assert inner.traced == {"reset": 1, "step": 1}


def test_pre_warm_compiles_at_construction(compile_counter: Any) -> None:
    with compile_counter() as compiled:
        env = JitWrapper(VectorEnv())
    assert compiled.count > 0
    key = jax.random.key(3)
    with compile_counter() as compiled:
        obs, state = env.reset(key)
        env.step(state, ZERO)
    assert compiled.count == 0


@pytest.mark.parametrize(
    ("make_env", "key"),
    [
        (VectorEnv, jax.random.key),
        (Weak, jax.random.key),
        pytest.param(NestedEnv, jax.random.key, marks=pytest.mark.slow),
    ],
)
def test_nothing_is_compiled_after_compile(make_env: Any, key: Any, compile_counter: Any) -> None:
    env = JitWrapper(RecordEpisodeStatistics(make_env()), pre_warm=False)
    actions = [env.action_space.sample(KEY)]
    if make_env is not NestedEnv:
        actions += [1, np.int32(1), np.asarray(1), np.int64(1), jnp.int32(1)]
    rng = key(3)
    env.compile()
    for action in actions:
        with compile_counter() as compiled:
            obs, state = env.reset(rng)
            for _ in range(3):  # what a step returns is what it takes
                obs, state, *_ = env.step(state, action)
        assert compiled.count == 0, action


@pytest.mark.parametrize(
    "stack",
    [
        lambda env: ClipReward(JitWrapper(env, pre_warm=False)),
        lambda env: JitWrapper(Wrapper(JitWrapper(env, pre_warm=False)), pre_warm=False),
        pytest.param(
            lambda env: RecordEpisodeStatistics(
                FrameStackObservation(JitWrapper(env, pre_warm=False))
            ),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_compile_reaches_it_wherever_it_sits(stack: Any) -> None:
    inner = Counting()
    env = stack(inner)
    assert inner.traced["step"] == 0
    env.compile()
    before = dict(inner.traced)
    assert before["reset"] > 0 and before["step"] > 0
    play(env)
    assert inner.traced == before


def test_compile_is_safe_to_repeat(compile_counter: Any) -> None:
    env = JitWrapper(VectorEnv())
    with compile_counter() as compiled:
        env.compile()
    assert compiled.count == 0


def jaxpr(function: Any, *args: Any) -> str:
    return str(jax.make_jaxpr(function)(*args))


def test_it_is_not_there_under_a_tracer() -> None:
    bare, env = VectorEnv(), JitWrapper(VectorEnv(), pre_warm=False)
    keys = jax.random.split(KEY, 3)
    _, state = bare.reset(KEY)
    _, states = jax.vmap(bare.reset)(keys)
    actions = jnp.zeros(3, jnp.int32)

    def scanned(env: Any) -> Any:
        return lambda *args: jax.lax.scan(lambda s, a: (env.step(s, a)[1], a), *args)

    for get, args in [
        (lambda e: e.reset, (KEY,)),
        (lambda e: e.step, (state, ZERO)),
        (lambda e: jax.vmap(e.reset), (keys,)),
        (lambda e: jax.vmap(e.step), (states, actions)),
        (scanned, (state, actions)),
    ]:
        assert jaxpr(get(env), *args) == jaxpr(get(bare), *args)
    assert "_strong_outputs" not in jaxpr(env.step, state, ZERO)


def test_it_is_at_home_under_every_transform() -> None:
    env, bare = JitWrapper(VectorEnv(), pre_warm=False), VectorEnv()
    keys = jax.random.split(KEY, 3)
    assert_trees_close(jax.vmap(env.reset)(keys), jax.jit(jax.vmap(bare.reset))(keys), rtol=1e-6)
    assert_trees_close(jax.jit(lambda: play(env))(), play(bare), rtol=1e-5)
    _, states = VecEnv(env, 3).reset(KEY)
    _, others = VecEnv(bare, 3).reset(KEY)
    assert_trees_equal(states, others)


def test_it_sits_in_the_middle_of_a_stack() -> None:
    inner = FrameStackObservation(JitWrapper(GrayscaleObservation(PixelEnv()), pre_warm=False))
    env = JitWrapper(RecordEpisodeStatistics(inner), pre_warm=False)
    bare = RecordEpisodeStatistics(FrameStackObservation(GrayscaleObservation(PixelEnv())))
    assert_trees_close(play(env), play(bare), rtol=1e-6)


def test_keys_that_are_none_are_refused() -> None:
    env = JitWrapper(VectorEnv(), pre_warm=False)
    for rng in (0, None, jnp.float32(0)):
        with pytest.raises(TypeError, match=r"JitWrapper\.reset: expected a PRNG key"):
            env.reset(rng)  # pyright: ignore
    for rngs in (jax.random.split(KEY, 3), jax.random.split(jax.random.PRNGKey(0), 3)):
        with pytest.raises(ValueError, match=r"JitWrapper\.reset: expected one PRNG key.*VecEnv"):
            env.reset(rngs)


@pytest.mark.parametrize("action", [0.5, jnp.float32(1), True, jnp.zeros(2, jnp.int32), None, {}])
def test_actions_of_another_kind_are_refused(action: Any) -> None:
    env = JitWrapper(VectorEnv(), pre_warm=False)
    _, state = env.reset(KEY)
    with pytest.raises((TypeError, ValueError), match=r"JitWrapper\.step: expected .*; got"):
        env.step(state, action)


def test_cache_dir_is_kept_and_used(tmp_path: Any) -> None:
    assert JitWrapper(VectorEnv(), pre_warm=False).cache_dir is DEFAULT_CACHE_DIR
    JitWrapper(VectorEnv(), tmp_path / "cache", pre_warm=False)
    assert not (tmp_path / "cache").exists()
    JitWrapper(VectorEnv(VectorConfig(gravity=0.123)), tmp_path / "cache")
    assert os.listdir(tmp_path / "cache")


def test_a_subclass_keeps_its_hooks() -> None:
    class Doubling(JitWrapper[Any, Any, Any, Any]):
        def reward(self, reward: jax.Array) -> jax.Array:
            return 2 * reward

        def info(self, info: Any) -> Any:
            return {**info, "more": jnp.float32(1)}

    bare, env = VectorEnv(), Doubling(VectorEnv(), pre_warm=False)
    for step in (env.step, jax.jit(env.step)):
        _, _, reward, _, info = step(env.reset(KEY)[1], jnp.int32(2))
        alone = float(bare.step(bare.reset(KEY)[1], jnp.int32(2))[2])
        assert float(reward) == pytest.approx(2 * alone, rel=1e-6)  # fused, it rounds otherwise
        assert float(info["more"]) == 1


def test_a_subclass_may_take_other_actions() -> None:
    class Signed(JitWrapper[Any, Any, Any, Any]):
        @property
        def action_space(self) -> Any:
            return Box(-1.0, 1.0, ())

        def action(self, action: jax.Array) -> jax.Array:
            return (action > 0).astype(jnp.int32)

    bare, env = VectorEnv(), Signed(VectorEnv())
    _, state = bare.reset(KEY)
    assert_trees_equal(env.step(state, 0.5)[1], bare.step(state, jnp.int32(1))[1])
