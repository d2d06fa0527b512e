"""`JitWrapper`: what it compiles and when; under a tracer it changes nothing."""

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import NestedEnv, ScriptEnv, VectorConfig, VectorEnv
from helpers import slow_but

from envrax import DEFAULT_CACHE_DIR, EnvState, JitWrapper, RecordEpisodeStatistics, Wrapper

KEY = jax.random.key(0)
ZERO = jnp.int32(0)


class Weak(ScriptEnv):
    """Everything it returns is weakly typed."""

    def reset(self, rng: jax.Array) -> tuple[Any, EnvState]:
        return jnp.asarray([0.0, 0.0]) * 1, EnvState(rng=rng, step=jnp.asarray(0), done=False)  # pyright: ignore

    def step(self, state: EnvState, action: Any) -> tuple[Any, ...]:
        state = state.replace(step=state.step + 1, done=jnp.asarray(False))
        return jnp.full(2, 1.0), state, jnp.asarray(1.0), jnp.asarray(False), {"x": 2.0}


def play(env: Any, steps: int = 3) -> None:
    _, state = env.reset(KEY)
    for _ in range(steps):
        _, state, *_ = env.step(state, ZERO)


def test_calls_are_compiled_once(compile_counter: Any) -> None:
    env = JitWrapper(VectorEnv(), pre_warm=False)
    play(env)
    with compile_counter() as compiled:
        play(env, steps=5)
    assert compiled.count == 0


@pytest.mark.parametrize("make_env", slow_but(Weak, values=[Weak, VectorEnv, NestedEnv]))
def test_nothing_is_compiled_after_compile(make_env: Any, compile_counter: Any) -> None:
    env = JitWrapper(RecordEpisodeStatistics(make_env()))  # which compiles it
    actions = [env.action_space.sample(KEY)]
    if make_env is not NestedEnv:
        actions += [1, np.int32(1), np.asarray(1), np.int64(1), jnp.int32(1)]
    rng = jax.random.key(3)
    for action in actions:
        with compile_counter() as compiled:
            env.compile()
            obs, state = env.reset(rng)
            for _ in range(3):  # what a step returns is what it takes
                obs, state, *_ = env.step(state, action)
        assert compiled.count == 0, action


def test_compile_reaches_it_wherever_it_sits(compile_counter: Any) -> None:
    with compile_counter() as before:
        inner = JitWrapper(VectorEnv(), pre_warm=False)
        env = Wrapper(JitWrapper(Wrapper(inner), pre_warm=False))
    env.compile()
    with compile_counter() as after:
        play(env.env)
        play(inner)
    assert before.count == after.count == 0


def test_it_is_not_there_under_a_tracer() -> None:
    bare, env = VectorEnv(), JitWrapper(VectorEnv(), pre_warm=False)
    keys = jax.random.split(KEY, 3)
    _, states = jax.vmap(bare.reset)(keys)
    actions = jnp.zeros(3, jnp.int32)

    def scanned(env: Any) -> Any:
        return lambda *args: jax.lax.scan(lambda s, a: (env.step(s, a)[1], a), *args)

    for get, given in [
        (lambda e: e.reset, (KEY,)),
        (lambda e: jax.vmap(e.step), (states, actions)),
        (scanned, (bare.reset(KEY)[1], actions)),
    ]:
        ours, theirs = (str(jax.make_jaxpr(get(e))(*given)) for e in (env, bare))
        assert ours == theirs


def test_keys_and_actions_of_another_kind_are_refused() -> None:
    env = JitWrapper(VectorEnv(), pre_warm=False)
    _, state = env.reset(KEY)
    for rng in (0, None, jnp.float32(0)):
        with pytest.raises(TypeError, match="PRNG key"):
            env.reset(rng)  # pyright: ignore
    for rngs in (jax.random.split(KEY, 3), jax.random.split(jax.random.PRNGKey(0), 3)):
        with pytest.raises(ValueError, match="PRNG key"):
            env.reset(rngs)
    for action in (0.5, jnp.float32(1), True, jnp.zeros(2, jnp.int32), None, {}):
        with pytest.raises((TypeError, ValueError), match="actions"):
            env.step(state, action)


def test_cache_dir_is_kept_and_used(tmp_path: Any) -> None:
    assert JitWrapper(VectorEnv(), pre_warm=False).cache_dir is DEFAULT_CACHE_DIR
    JitWrapper(VectorEnv(), tmp_path / "cache", pre_warm=False)
    assert not (tmp_path / "cache").exists()
    JitWrapper(VectorEnv(VectorConfig(gravity=0.123)), tmp_path / "cache")
    assert os.listdir(tmp_path / "cache")


def test_a_subclass_is_refused() -> None:
    with pytest.raises(TypeError, match="Doubling"):

        class Doubling(JitWrapper[Any, Any, Any, Any]):
            pass
