"""What an environment returns, and what a caller passes, is checked when it is first traced."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import VectorEnv
from vec_env.test_refusals import Flawed

from envrax import JitWrapper, VecEnv


@pytest.mark.parametrize(
    ("change", "noun"),
    [
        (lambda *out: out[0], "reset"),
        (lambda *out: (*out, {}), "length 3"),
        (lambda *out: out[::-1], "EnvState"),
    ],
)
def test_a_reset_of_another_form_is_refused(change: Any, noun: str) -> None:
    with pytest.raises(TypeError, match=noun):
        jax.eval_shape(VecEnv(Flawed(change), 2).reset, jax.random.key(0))


@pytest.mark.parametrize(
    ("change", "noun"),
    [
        (lambda *out: None, "NoneType"),
        (lambda *out: out[:4], "length 4"),
        (lambda *out: (out[0], *out[2:4], *out[3:]), "EnvState"),
    ],
)
def test_a_step_of_another_form_is_refused(change: Any, noun: str) -> None:
    vec_env = VecEnv(Flawed(at_step=change), 2)
    _, state = jax.eval_shape(vec_env.reset, jax.random.key(0))
    with pytest.raises(TypeError, match=noun):
        jax.eval_shape(vec_env.step, state, np.zeros(2, np.int32))


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
