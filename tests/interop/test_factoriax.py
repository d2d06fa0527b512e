# pyright: basic, reportMissingImports=false
"""Factoriax by name: equal to Factoriax stepped by hand; its limit, options, objects of users."""

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interop.by_hand import called, follow, make, of_gymnax

COMPARED = ("MinerBootstrap-v1", "EasyRocket-v1")


@pytest.mark.parametrize("id", COMPARED)
def test_200_steps_are_those_of_factoriax(adapter: Any, id: str) -> None:
    env = make(f"factoriax/{id}", max_steps=40)
    peer, params = called(adapter.env_from_name, id, auto_reset=False)
    params = params.replace(max_timesteps=40)
    endless = params.replace(max_timesteps=2**31 - 1)

    def ends(inner: Any, over: Any) -> Any:
        truncated = inner.timestep >= params.max_timesteps
        terminated = peer.is_terminal(inner, endless)
        return {"terminated": terminated, "done": over, "truncated": truncated}

    assert follow(env, *of_gymnax(peer, params, ends)) == {"truncated"}


def test_a_goal_terminates(adapter: Any) -> None:
    base = importlib.import_module("factoriax.engine.envs.base")

    def at_the_goal(state: Any, params: Any) -> Any:
        return state.timestep >= 3

    peer = base.FactoriaxEnv(done_fn=at_the_goal, map_width=8, map_height=8)
    env = adapter.wrap(peer, {"max_timesteps": 50})
    assert env.config.max_steps == 50
    _, state = env.reset(jax.random.key(0))
    for n in (1, 2, 3):
        _, state, _, done, info = env.step(state, 0)
        assert bool(info["terminated"]) == bool(done) == (n == 3) and not info["truncated"]


def test_options_params_and_limit(adapter: Any) -> None:
    env = make("factoriax/Rocket-v1", options={"obs": "x_ray_local", "obs_radius": 2})
    assert env.config.max_steps == env.unwrapped.params.max_timesteps == 8000
    assert env.unwrapped.peer._inner.obs_radius == 2
    short = make("factoriax/Rocket-v1", max_steps=9)
    assert short.unwrapped.params.max_timesteps == short.config.max_steps == 9

    def truncated(limit: Any) -> Any:
        env = make("factoriax/MinerBootstrap-v1", params={"max_timesteps": limit})
        return env.step(env.reset(jax.random.key(0))[1], 0)[-1]["truncated"]

    assert jax.jit(jax.vmap(truncated))(jnp.array([1, 2])).tolist() == [True, False]


def test_wrap_and_render(adapter: Any) -> None:
    peer, params = adapter.env_from_name("EasyRocket-v1", auto_reset=False)
    env = adapter.wrap(peer, params, max_steps=7)
    obs, state = env.reset(jax.random.key(0))
    assert obs in env.observation_space and env.config.max_steps == 7
    image = env.render(state)
    assert image.shape == (16 * adapter.PIXELS, 16 * adapter.PIXELS, 3) and image.dtype == np.uint8
    with pytest.raises(TypeError, match="AutoResetWrapper"):
        adapter.wrap(adapter.env_from_name("EasyRocket-v1")[0], params)
