# pyright: basic, reportMissingImports=false
"""MuJoCo Playground by name: equal to it stepped by hand; what is drawn, downloaded, refused."""

from __future__ import annotations

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from interop.by_hand import follow, keeps_the_contract
from interop.filming import shows_its_episode

import envrax

# Libraries warn when they are imported.
pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]

COMPARED = ["CartpoleBalance", "PendulumSwingup", "PointMass", "AcrobotSwingup"]


@pytest.fixture(scope="module")
def adapter() -> Any:
    import envrax.interop.playground

    return envrax.interop.playground


def _make(id: str, **fields: Any) -> Any:
    return envrax.make(f"playground/{id}", jit_compile=False, **fields)


@pytest.mark.parametrize("id", COMPARED)
def test_200_steps_are_those_of_playground(adapter: Any, id: str) -> None:
    env = _make(id, max_steps=60)
    peer = env.unwrapped.peer

    def begin(key: Any) -> Any:
        inner = peer.reset(key)
        return inner.obs, inner

    def advance(key: Any, inner: Any, action: Any) -> Any:
        inner = peer.step(inner, action)
        return inner.obs, inner, inner.reward, inner.done > 0

    def diverge(inner: Any) -> Any:
        """These ids end by themselves only if the physics diverges."""
        return inner.replace(data=inner.data.replace(qvel=inner.data.qvel * jnp.nan))

    ends = follow(env, begin, advance, edit=diverge)
    assert ends["truncated"] and ends["terminated"]


@pytest.mark.parametrize("id", ["CartpoleBalance", "PendulumSwingup"])
def test_it_keeps_the_contract(adapter: Any, id: str) -> None:
    env = _make(id)
    assert bool(env.unwrapped.waivers) == id.startswith("Cartpole")
    keeps_the_contract(env, num_steps=50)


def test_the_config(adapter: Any) -> None:
    assert len(envrax.load_suite("playground")) == 54
    overrides = {"episode_length": 70}
    env = _make("PendulumSwingup", options={"config_overrides": overrides})
    assert env.config.max_steps == 70 and overrides == {"episode_length": 70}
    assert env.unwrapped.peer.mjx_model.impl.value == "jax"
    config = adapter.registry.get_default_config("PendulumSwingup")
    config.impl, config.episode_length = "jax", 80
    env = _make("PendulumSwingup", options={"config": config})
    assert env.config.max_steps == 80 and not config.is_locked


@pytest.mark.parametrize("id", ["Go1JoystickFlatTerrain", "PandaPickCube"])
def test_nothing_is_cloned(adapter: Any, id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "MENAGERIE_PATH", adapter.MENAGERIE_PATH / "absent")
    with pytest.raises(ValueError, match=f"playground/{id}: .*`git clone` .*mujoco_menagerie"):
        _make(id)


def test_it_draws(adapter: Any, tmp_path: Any) -> None:
    env = _make("PendulumSwingup")
    try:
        image = shows_its_episode(env, tmp_path)
    except NotImplementedError as error:  # a machine without OpenGL
        assert "MUJOCO_GL" in str(error)
        return
    assert image.shape == (240, 320, 3)


def test_what_is_refused(adapter: Any) -> None:
    with pytest.raises(ValueError, match="playground/PendulumSwingup"):
        _make("PendulumSwingUp")
    with pytest.raises(ValueError, match=r"PendulumSwingup: expected playground .*wind"):
        _make("PendulumSwingup", options={"config_overrides": {"wind": 1.0}})
    with pytest.raises(TypeError, match="no `params`"):
        _make("PendulumSwingup", params={"wind": 1.0})
    with pytest.raises(TypeError, match="expected an environment of playground"):
        adapter.wrap(object())
    bare = _make("PendulumSwingup").unwrapped.peer
    with pytest.raises(TypeError, match=r"got a BraxAutoResetWrapper.*max_steps"):
        wrapper = importlib.import_module("mujoco_playground").wrapper
        adapter.wrap(wrapper.wrap_for_brax_training(bare))
    assert adapter.wrap(bare, max_steps=9).name == "SwingUp"


def test_a_custom_environment_that_breaks_its_contract(adapter: Any) -> None:
    pendulum = type(_make("PendulumSwingup").unwrapped.peer)

    class Growing(pendulum):
        def step(self, state: Any, action: Any) -> Any:
            state = super().step(state, action)
            return state.replace(obs=jnp.concatenate([state.obs, state.obs]))

    config = adapter.registry.get_default_config("PendulumSwingup")
    env = adapter.wrap(Growing(config, {"impl": "jax"}))
    with pytest.raises(TypeError, match="playground/Growing: expected `obs` to keep its shape"):
        env.reset(jax.random.key(0))
