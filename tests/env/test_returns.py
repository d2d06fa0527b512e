"""What an environment returns, and what a caller passes, is checked when it is first traced."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import VectorConfig, VectorEnv

from envrax import JitWrapper, VecEnv


class Returning(VectorEnv):
    """Hands what it returns through a function of the test's."""

    def __init__(self, change_reset: Any = None, change_step: Any = None) -> None:
        super().__init__(VectorConfig())
        self.change_reset = change_reset or (lambda out: out)
        self.change_step = change_step or (lambda out: out)

    def reset(self, rng: jax.Array) -> Any:
        return self.change_reset(super().reset(rng))

    def step(self, state: Any, action: jax.Array) -> Any:
        return self.change_step(super().step(state, action))


@pytest.mark.parametrize(
    ("change", "noun"),
    [
        (lambda out: out[0], "reset"),
        (lambda out: (*out, {}), "length 3"),
        (lambda out: out[::-1], "EnvState"),
    ],
)
def test_a_reset_of_another_form_is_refused(change: Any, noun: str) -> None:
    with pytest.raises(TypeError, match=noun):
        VecEnv(Returning(change_reset=change), 2).reset(jax.random.key(0))


@pytest.mark.parametrize(
    ("change", "noun"),
    [
        (lambda out: None, "NoneType"),
        (lambda out: out[:4], "length 4"),
        (lambda out: (out[0], out[2], out[3], out[3], out[4]), "EnvState"),
    ],
)
def test_a_step_of_another_form_is_refused(change: Any, noun: str) -> None:
    vec_env = VecEnv(Returning(change_step=change), 2)
    _, state = vec_env.reset(jax.random.key(0))
    with pytest.raises(TypeError, match=noun):
        vec_env.step(state, jnp.zeros(2, jnp.int32))


def test_a_state_that_is_not_this_vec_envs_is_refused() -> None:
    vec_env, actions = VecEnv(VectorEnv(), 2), jnp.zeros(2, jnp.int32)
    obs, state = vec_env.reset(jax.random.key(0))
    with pytest.raises(TypeError, match="2 slots"):
        vec_env.step(obs, actions)  # type: ignore[arg-type]
    _, three = VecEnv(VectorEnv(), 3).reset(jax.random.key(0))
    with pytest.raises(ValueError, match=r"\(3,"):
        vec_env.step(three, actions)
    with pytest.raises(ValueError, match="2 slots"):
        vec_env.step(vec_env.slot_state(state), actions)


def test_actions_are_checked_under_a_tracer_too() -> None:
    env = JitWrapper(VectorEnv(), pre_warm=False)
    _, state = env.reset(jax.random.key(0))
    with pytest.raises(TypeError, match="actions"):
        jax.jit(lambda state: env.step(state, jnp.float32(1.5)))(state)


def test_a_wide_numpy_action_does_not_wrap_around() -> None:
    env = JitWrapper(VectorEnv(), pre_warm=False)
    _, state = env.reset(jax.random.key(0))
    for action in (np.int64(2**32 + 2), np.array(2**40)):
        with pytest.raises(ValueError, match="int32"):
            env.step(state, action)
