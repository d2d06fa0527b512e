"""`VecEnv.compile`: afterwards the first real reset and step compile nothing."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CounterEnv, NestedEnv, PixelEnv, ScriptEnv
from helpers import jax_flag, slow_but, small_vec

from envrax import (
    Box,
    ClipReward,
    FrameStackObservation,
    JitWrapper,
    MultiEnv,
    NormalizeObservation,
    RecordEpisodeStatistics,
    VecEnv,
)


class PushEnv(ScriptEnv):
    """Takes a push of two floats, and compiles fast."""

    @property
    def action_space(self) -> Any:
        return Box(-1.0, 1.0, (2,))


def pixels() -> Any:
    env = FrameStackObservation(NormalizeObservation(PixelEnv()), n_stack=2)
    return ClipReward(RecordEpisodeStatistics(JitWrapper(env, pre_warm=False)))


CASES: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "box": (PushEnv, [[[0, 0.5], [1, 0.1]], np.zeros((2, 2), np.float64), jnp.ones((2, 2))]),
    "nested": (NestedEnv, [{"turn": np.asarray([[0, 1], [1, 2]]), "move": [0, 1]}]),
    "stack of wrappers": (pixels, [[0, 1], jnp.asarray([1, 2], jnp.int32)]),
}


@pytest.mark.parametrize("case", slow_but("box", values=CASES))
def test_real_calls_compile_nothing(case: str, compile_counter: Any) -> None:
    make_env, ways = CASES[case]
    vec_env = VecEnv(make_env(), 2, final_obs=case == "nested")
    vec_env.compile(cache_dir=None)
    key, legacy = jax.random.key(3), jax.random.PRNGKey(3)
    with compile_counter() as compiled:
        _, state = vec_env.reset(key)
        for actions in ways:
            state = vec_env.step(state, actions)[1]
        vec_env.compile(cache_dir=None)
    assert compiled.count == 0
    with compile_counter() as compiled:  # a legacy key compiles at its first call
        vec_env.step(vec_env.reset(legacy)[1], ways[0])
    assert compiled.count == 2


def test_an_eager_one_compiles_nothing(compile_counter: Any) -> None:
    with compile_counter() as compiled:
        VecEnv(ScriptEnv(), 2, jit_compile=False).compile(None)
    assert compiled.count == 0


class Scaled(CounterEnv):
    """Its reward is scaled by a number that may be traced."""

    def __init__(self, scale: Any) -> None:
        super().__init__()
        self.scale = scale

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, done, info = super().step(state, action)
        return obs, state, reward * self.scale, done, info


def test_works_on_traced_values() -> None:
    def reward(scale: Any) -> jax.Array:
        vec_env = small_vec(Scaled(scale), 2)
        vec_env.compile(None)
        return vec_env.step(vec_env.reset(jax.random.key(0))[1], [1, 2])[2]

    scales = jnp.arange(1, 4, dtype=jnp.float32)
    found = np.asarray(jax.jit(jax.vmap(reward))(scales))
    assert found[0].any()
    np.testing.assert_array_equal(found, found[0] * scales[:, None])


@pytest.mark.parametrize(
    ("name", "value"), [("jax_legacy_prng_key", "error"), ("jax_default_prng_impl", "unsafe_rbg")]
)
def test_respects_the_kinds_of_key_that_the_user_allows(
    name: str, value: Any, compile_counter: Any
) -> None:
    with jax_flag(name, value):
        vec_env = VecEnv(ScriptEnv(), 2)
        vec_env.compile(None)
        rng = jax.random.key(0)
        with compile_counter() as compiled:
            vec_env.step(vec_env.reset(rng)[1], [0, 1])
        assert compiled.count == 0


class Picky(ScriptEnv):
    """Its action space leaves out 0, whose reward is NaN. It reports its steps to the host."""

    seen: ClassVar[list[Any]] = []

    @property
    def action_space(self) -> Any:
        return Box(0.5, 2.0, ())

    def step(self, state: Any, action: Any) -> Any:
        obs, state, _, done, info = super().step(state, action)
        jax.debug.callback(self.seen.append, action)
        return obs, state, jnp.log(action), done, info


def test_compiling_runs_nothing() -> None:
    Picky.seen.clear()
    with jax.debug_nans(True):
        VecEnv(Picky(), 2).compile(None)
        JitWrapper(Picky(), None)
        MultiEnv([JitWrapper(Picky(), pre_warm=False)] * 2).compile(progress=False)
    jax.effects_barrier()
    assert Picky.seen == []
