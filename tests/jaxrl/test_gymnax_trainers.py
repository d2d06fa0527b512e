# pyright: reportMissingImports=false
"""Trainers written for gymnax, unmodified: rejax, and gymnax's own wrappers."""

from typing import Any

import gymnax.environments.spaces
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rejax

import envrax
from envrax.classic import CartPole, Pendulum
from envrax.interop import to_gymnax
from envrax.interop.gymnax import wrap
from envrax.testing import CountingEnv


@pytest.mark.parametrize(
    ("algo", "env", "options"),
    [
        ("ppo", CartPole, {"num_envs": 8, "num_steps": 16, "num_minibatches": 4}),
        ("sac", Pendulum, {"num_envs": 4, "buffer_size": 500, "fill_buffer": 100}),
    ],
)
def test_rejax(algo: str, env: Any, options: Any) -> None:
    bridge = to_gymnax(env())
    trainer = rejax.get_algo(algo).create(
        env=bridge, env_params=bridge.default_params, total_timesteps=512, eval_freq=256, **options
    )
    _, (lengths, returns) = jax.jit(rejax.get_algo(algo).train)(trainer, jax.random.key(0))
    assert np.isfinite(returns).all() and (lengths > 0).all()


def test_the_classes_of_spaces_are_those_of_gymnax() -> None:
    bridge = to_gymnax(Pendulum())
    assert isinstance(bridge.action_space(), gymnax.environments.spaces.Box)
    assert isinstance(to_gymnax(CartPole()).action_space(), gymnax.environments.spaces.Discrete)


def test_the_way_back() -> None:
    env = CartPole()
    bridge = to_gymnax(env)
    assert wrap(bridge) is wrap(to_gymnax(env, version=1)) is env
    changed = wrap(bridge, bridge.default_params.replace(gravity=3.0), max_steps=7)
    assert (changed.config.gravity, changed.config.max_steps) == (3.0, 7)


def test_gymnax_wrappers() -> None:
    """gymnax 1.0's `LogWrapper` speaks the newer protocol."""
    from gymnax.wrappers.purerl import LogWrapper

    env = LogWrapper(to_gymnax(CountingEnv(envrax.EnvConfig(max_steps=3)), version=1))
    _, state = env.reset(jax.random.key(0))
    info: Any = {}
    for _ in range(4):
        *_, info = (out := env.step(jax.random.key(0), state, jnp.int32(2)))
        state = out[1]
    assert (
        float(info["returned_episode_returns"]) == 6 and int(info["returned_episode_lengths"]) == 3
    )
