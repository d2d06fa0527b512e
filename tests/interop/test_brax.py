# pyright: basic, reportMissingImports=false
"""brax by name: equal to brax stepped by hand; observations, images, objects of users."""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from interop.by_hand import follow, make, of_brax


# `fast` never ends by itself.
@pytest.mark.parametrize(("id", "limit"), [("fast", 60), ("inverted_pendulum", 20)])
def test_200_steps_are_those_of_brax(adapter: Any, id: str, limit: int) -> None:
    env = make(f"brax/{id}", max_steps=limit)
    ends = follow(env, *of_brax(env.unwrapped.peer))
    assert ends == ({"truncated"} if id == "fast" else {"truncated", "terminated"})


def test_the_limit_is_that_of_brax(adapter: Any) -> None:
    theirs = inspect.signature(adapter.envs.create).parameters["episode_length"].default
    assert make("brax/fast").config.max_steps == theirs


def test_dict_observations(adapter: Any) -> None:
    env = make("brax/fast", options={"obs_mode": "dict_state", "asymmetric_obs": True})
    obs, _ = env.reset(jax.random.key(0))
    assert sorted(env.observation_space.spaces) == ["privileged_state", "state"]
    assert obs in env.observation_space


def test_no_model_no_image(adapter: Any) -> None:
    env = make("brax/fast")
    with pytest.raises(NotImplementedError, match="MuJoCo model"):
        env.render(env.reset(jax.random.key(0))[1])


def test_wrap_edits_nothing_of_the_caller_s(adapter: Any) -> None:
    class Counts(adapter.envs.fast.Fast):
        def step(self, state: Any, action: Any) -> Any:
            state.metrics.update(n=state.metrics.get("n", 0.0) + 1.0)
            return super().step(state, action)

        def reset(self, rng: Any) -> Any:
            state = super().reset(rng)
            state.metrics.update(n=jnp.zeros(()))
            return state

    env = adapter.wrap(Counts(), max_steps=5)
    assert (env.name, env.config.max_steps) == ("Counts", 5)
    _, state = env.reset(jax.random.key(0))
    with jax.disable_jit():
        env.step(state, jnp.zeros(env.action_space.shape))
    assert state.inner.metrics["n"] == 0.0
    with pytest.raises(TypeError, match="Wrapper"):
        adapter.wrap(adapter.envs.create("fast", auto_reset=False))


def test_an_option_that_its_class_swallows_is_refused(adapter: Any) -> None:
    with pytest.raises(ValueError, match="options"):
        make("brax/fast", options={"x": 1})
