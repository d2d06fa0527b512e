# pyright: basic, reportMissingImports=false
"""brax by name: equal to brax stepped by hand; what is drawn, waived, refused."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from interop.by_hand import follow, keeps_the_contract
from interop.filming import shows_its_episode

import envrax

# Libraries warn when they are imported.
pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]

COMPARED: dict[str, dict[str, Any]] = {
    "fast": {"max_steps": 60},
    "inverted_pendulum": {"max_steps": 20},
    "inverted_double_pendulum": {"max_steps": 12},
    "reacher": {"max_steps": 50, "options": {"backend": "positional"}},
}


@pytest.fixture(scope="module")
def adapter() -> Any:
    import envrax.interop.brax

    return envrax.interop.brax


def _make(id: str, **fields: Any) -> Any:
    return envrax.make(f"brax/{id}", jit_compile=False, **fields)


@pytest.mark.parametrize("id", COMPARED)
def test_200_steps_are_those_of_brax(adapter: Any, id: str) -> None:
    env = _make(id, **COMPARED[id])
    peer = env.unwrapped.peer

    def begin(key: Any) -> Any:
        inner = peer.reset(key)
        return inner.obs, inner

    def advance(key: Any, inner: Any, action: Any) -> Any:
        inner = peer.step(inner, action)
        return inner.obs, inner, inner.reward, inner.done > 0

    ends = follow(env, begin, advance)
    assert ends["truncated"]
    assert ends["terminated"] or id in ("fast", "reacher")  # which never end by themselves


@pytest.mark.parametrize("id", ["fast", "inverted_pendulum"])
def test_it_keeps_the_contract(adapter: Any, id: str) -> None:
    keeps_the_contract(_make(id))


def test_the_limit_is_that_of_brax(adapter: Any) -> None:
    assert len(envrax.load_suite("brax")) == 12
    theirs = inspect.signature(adapter.envs.create).parameters["episode_length"].default
    assert _make("fast").config.max_steps == theirs


def test_dict_observations(adapter: Any) -> None:
    env = _make("fast", options={"obs_mode": "dict_state", "asymmetric_obs": True})
    obs, _ = env.reset(jax.random.key(0))
    assert sorted(env.observation_space.spaces) == ["privileged_state", "state"]
    assert obs in env.observation_space


def test_it_draws(adapter: Any, tmp_path: Any) -> None:
    env = _make("inverted_pendulum")
    try:
        image = shows_its_episode(env, tmp_path)
    except NotImplementedError as error:  # a machine without OpenGL
        assert "MUJOCO_GL" in str(error)
        return
    assert image.shape == (240, 320, 3)


def test_no_model_no_image(adapter: Any) -> None:
    env = _make("fast")
    with pytest.raises(NotImplementedError, match=r"brax/fast\.render: expected .* MuJoCo model"):
        env.render(env.reset(jax.random.key(0))[1])


def test_what_is_refused(adapter: Any) -> None:
    with pytest.raises(ValueError, match="brax/inverted_pendulum"):
        _make("inverted_pendulun")
    with pytest.raises(ValueError, match=r"brax/ant: expected brax .*'wings': 2.*TypeError"):
        _make("ant", options={"wings": 2})
    with pytest.raises(TypeError, match="no `params`"):
        _make("fast", params={"gravity": 1.0})
    with pytest.raises(TypeError, match=r"wrap: expected an environment of brax"):
        adapter.wrap(object())
    wrapped = adapter.envs.create("fast", auto_reset=False)
    with pytest.raises(TypeError, match=r"got a \w*Wrapper.*max_steps"):
        adapter.wrap(wrapped)


def test_wrap(adapter: Any) -> None:
    class Slow(adapter.envs.fast.Fast):
        """A custom environment."""

    env = adapter.wrap(Slow(), max_steps=5)
    assert (env.name, env.config.max_steps) == ("Slow", 5)
    keeps_the_contract(env, num_steps=20)


def test_a_custom_environment_that_breaks_its_contract(adapter: Any) -> None:
    class Growing(adapter.envs.fast.Fast):
        def step(self, state: Any, action: Any) -> Any:
            state = super().step(state, action)
            return state.replace(obs=jnp.concatenate([state.obs, state.obs]))

    env = adapter.wrap(Growing())
    with pytest.raises(TypeError, match=r"brax/Growing: expected `obs` to keep its shape"):
        env.reset(jax.random.key(0))


def test_nothing_of_the_callers_is_edited_without_jit_either(adapter: Any) -> None:
    class Counts(type(adapter.envs.get_environment("fast"))):
        def step(self, state: Any, action: Any) -> Any:
            state.metrics.update(n=state.metrics.get("n", 0.0) + 1.0)
            return super().step(state, action)

        def reset(self, rng: Any) -> Any:
            state = super().reset(rng)
            state.metrics.update(n=jnp.zeros(()))
            return state

    env = adapter.wrap(Counts())
    _, state = env.reset(jax.random.key(0))
    with jax.disable_jit():
        env.step(state, jnp.zeros(env.action_space.shape))
    assert state.inner.metrics["n"] == 0.0


def test_waivers_are_for_the_generalized_pipeline(adapter: Any) -> None:
    env = _make("inverted_pendulum", options={"backend": "positional"})
    assert _make("inverted_pendulum").unwrapped.waivers and not env.unwrapped.waivers
    keeps_the_contract(env, num_steps=20)
