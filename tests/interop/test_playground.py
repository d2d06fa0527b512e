# pyright: basic, reportMissingImports=false
"""MuJoCo Playground by name: equal to it stepped by hand; drawing, downloads, errors."""

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from interop.by_hand import follow, make, of_brax


@pytest.mark.parametrize("id", ["CartpoleBalance", "PendulumSwingup"])
def test_200_steps_are_those_of_playground(adapter: Any, id: str) -> None:
    env = make(f"playground/{id}", max_steps=60)

    def diverge(inner: Any) -> Any:
        """These ids end by themselves only if the physics diverges."""
        return inner.replace(data=inner.data.replace(qvel=inner.data.qvel * jnp.nan))

    assert follow(env, *of_brax(env.unwrapped.peer), edit=diverge) == {"truncated", "terminated"}


def test_the_config(adapter: Any) -> None:
    overrides = {"episode_length": 70}
    env = make("playground/PendulumSwingup", options={"config_overrides": overrides})
    assert env.config.max_steps == 70 and overrides == {"episode_length": 70}
    assert env.unwrapped.peer.mjx_model.impl.value == "jax"
    config = adapter.registry.get_default_config("PendulumSwingup")
    config.impl, config.episode_length = "jax", 80
    env = make("playground/PendulumSwingup", options={"config": config})
    assert env.config.max_steps == 80 and not config.is_locked
    env = make("playground/PendulumSwingup", options={"config": config}, max_steps=9)
    assert env.config.max_steps == env.unwrapped.peer._config.episode_length == 9


def test_nothing_is_cloned(adapter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "MENAGERIE_PATH", adapter.MENAGERIE_PATH / "absent")
    with pytest.raises(ValueError, match="mujoco_menagerie"):
        make("playground/Go1JoystickFlatTerrain")


def test_the_faults_that_are_told(adapter: Any) -> None:
    """To be dropped from `descriptions/playground.toml` once mended; `findings` has programs."""
    env = make("playground/ReacherEasy")
    obs, state = env.reset(jax.random.key(0))
    finger = env.unwrapped.peer.mj_model.geom("finger").id
    shown = obs[2:4] + state.inner.data.geom_xpos[finger, :2]
    assert jnp.allclose(shown, 0, atol=1e-6), "the first observation has the target of the episode"
    obs, _ = jax.vmap(make("playground/PendulumSwingup").reset)(
        jax.random.split(jax.random.key(0), 64)
    )
    assert (obs[:, 0] >= 0).all(), "the pendulum begins on both sides"


def test_wrap(adapter: Any) -> None:
    bare = make("playground/PendulumSwingup").unwrapped.peer
    with pytest.raises(TypeError, match="BraxAutoResetWrapper"):
        wrapper = importlib.import_module("mujoco_playground").wrapper
        adapter.wrap(wrapper.wrap_for_brax_training(bare))
    assert adapter.wrap(bare, max_steps=9).name == "SwingUp"
