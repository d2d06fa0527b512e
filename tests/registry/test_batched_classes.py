"""A `BatchedEnv` class under an id: worlds with several agents, which `make_vec` builds."""

from typing import Any

import jax
import pytest
from batched_fakes import Scene
from fakes import CounterEnv, VectorConfig

import envrax
from envrax import ClipReward, EnvConfig, MultiVecEnv
from envrax.__main__ import main
from envrax.testing import RingWorld

AGENTS = 3


class Scenes(RingWorld):
    """Scenes side by side; it notes how it was built."""

    def __init__(self, config: EnvConfig, n_envs: int, **options: Any) -> None:
        super().__init__(n_envs * AGENTS)
        self.config, self.n_envs, self.options = config, n_envs, options
        self.compiled = 0

    def compile(self, cache_dir: Any = None) -> None:
        self.compiled += 1


@pytest.fixture(autouse=True)
def registered(clean_registry: None) -> None:
    """Scenes, and an environment of the usual kind."""
    envrax.register("play/Scenes|3-v0", Scenes, VectorConfig(max_steps=9))
    envrax.register("play/Counter-v0", CounterEnv, VectorConfig())


def make_vec(n_envs: int = 2, **options: Any) -> Any:
    return envrax.make_vec("play/Scenes|3-v0", n_envs, **options)


def test_make_vec_builds_it_with_its_own_options() -> None:
    batch = make_vec()
    assert (batch.n_envs, batch.n_slots, batch.compiled) == (2, 6, 1)
    assert batch.options == dict(jit_compile=True, final_obs=False, autoreset=None, donate=False)
    assert batch.config.max_steps == 9
    obs, _ = batch.reset(jax.random.key(0))
    assert obs.shape == (6, 2)
    batch = make_vec(final_obs=True, donate=True, jit_compile=False, pre_warm=False)
    assert batch.options == dict(jit_compile=False, final_obs=True, autoreset=None, donate=True)
    assert batch.compiled == 0


def test_configs_and_fields_are_those_of_any_environment() -> None:
    assert make_vec(max_steps=5).config == VectorConfig(max_steps=5)
    assert make_vec(config=EnvConfig(max_steps=4)).config == VectorConfig(max_steps=4)
    with pytest.raises(TypeError, match=r"make_vec: .*got max_step\. Did you mean max_steps\?"):
        make_vec(max_step=5)
    with pytest.raises(ValueError, match="make_vec: expected n_envs"):
        make_vec(0)


def test_fleets_hold_it() -> None:
    fleet = envrax.make_multi_vec(["play/Scenes|3-v0", "play/Counter-v0"], 2)
    assert isinstance(fleet, MultiVecEnv)
    assert fleet.slots_per_env == [6, 2]
    obs, _ = fleet.reset(jax.random.key(0))
    assert obs[0].shape == (6, 2)


@pytest.mark.parametrize("build", [envrax.make, lambda name: envrax.make_multi([name])])
def test_make_refuses_it(build: Any) -> None:
    with pytest.raises(ValueError, match="Use `make_vec`"):
        build("play/Scenes|3-v0")


def test_wrappers_are_refused() -> None:
    assert make_vec(wrappers=[]).n_slots == 6
    with pytest.raises(ValueError, match=r"make_vec: .*is no JaxEnv; got .*ClipReward"):
        make_vec(wrappers=[ClipReward])
    with pytest.raises(TypeError, match="to be a list"):
        make_vec(wrappers=ClipReward)


def test_a_class_of_another_form_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Scene to be built from \(config, n_envs\)"):
        envrax.register("S-v0", Scene, VectorConfig())


def test_the_command_line_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "play/Scenes|3-v0"]) == 0
    shown = capsys.readouterr().out
    assert "test_batched_classes.Scenes" in shown and "agents        3\n" in shown
    assert "max_steps     9" in shown and "Discrete" in shown
