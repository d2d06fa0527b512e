"""`make_multi` and `make_multi_vec`: from names, or from ready environments, to a fleet."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import pytest
from batched_fakes import Scene
from fakes import CounterEnv, PixelEnv, VectorConfig

import envrax
from envrax import (
    FrameStackObservation,
    GrayscaleObservation,
    JitWrapper,
    MultiEnv,
    MultiVecEnv,
    RecordVideo,
    VecEnv,
    make_multi,
    make_multi_vec,
)
from envrax.autoreset import Select

NAMES = ["fleet/Counter-v0", "fleet/Pixel-v0"]


@pytest.fixture(autouse=True)
def registered(clean_registry: None) -> None:
    envrax.register(NAMES[0], CounterEnv, VectorConfig(max_steps=9))
    envrax.register(NAMES[1], PixelEnv, VectorConfig())


fleets = pytest.mark.parametrize("make", [make_multi, partial(make_multi_vec, n_envs=3)])
single_by_default = pytest.mark.parametrize(
    "make", [make_multi, pytest.param(partial(make_multi_vec, n_envs=3), marks=pytest.mark.slow)]
)


@fleets
def test_from_names(make: Any) -> None:
    multi = make(NAMES)
    assert type(multi) is (MultiEnv if make is make_multi else MultiVecEnv)
    assert multi.env_keys == ["CounterEnv", "PixelEnv"]
    assert [member.config.max_steps for member in multi.envs] == [9, 5]
    keyed = make({"b": NAMES[1], "a": NAMES[0]}, max_steps=7)
    assert keyed.env_keys == ["b", "a"] and list(keyed.envs) == ["b", "a"]
    assert isinstance(keyed.envs["b"].unwrapped, PixelEnv)
    assert keyed.envs["b"].config.max_steps == keyed.envs["a"].config.max_steps == 7


@fleets
@pytest.mark.parametrize("jit_compile", [True, False])
def test_equal_names_share_one_environment(make: Any, jit_compile: bool) -> None:
    first, other, again = make([NAMES[0], NAMES[1], NAMES[0]], jit_compile=jit_compile).envs
    assert first is again is not other


def test_equal_names_on_the_host_share_nothing(tmp_path: Path) -> None:
    multi = make_multi([NAMES[1]] * 2, wrappers=[RecordVideo(output_dir=tmp_path)])
    assert multi.envs[0] is not multi.envs[1]
    assert all(isinstance(env.env, JitWrapper) for env in multi.envs)
    _, states = multi.reset(jax.random.key(0))
    for _ in range(5):
        _, states, *_ = multi.step(states, [0, 0])
    multi.close()
    assert len([*tmp_path.glob("*.mp4")]) == 2


@fleets
def test_the_wrappers_go_around_each(make: Any) -> None:
    wrappers = [GrayscaleObservation, FrameStackObservation(n_stack=2)]
    fleet = make([NAMES[1]] * 2, wrappers=wrappers)
    obs, _ = jax.eval_shape(fleet.reset, jax.random.key(0))
    assert [x.shape[-3:] for x in obs] == [(12, 10, 2)] * 2
    with pytest.raises(TypeError, match="GrayscaleObservation"):
        make(NAMES, wrappers=wrappers)


@single_by_default
@pytest.mark.parametrize("pre_warm", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_pre_warm(make: Any, pre_warm: bool, compile_counter: Any) -> None:
    rng = jax.random.key(0)
    with compile_counter() as before:
        multi = make(NAMES, pre_warm=pre_warm)
    with compile_counter() as compiled:
        multi.reset(rng)
    assert (before.count > 0, compiled.count > 0) == (pre_warm, not pre_warm)


@fleets
def test_for_debugging_nothing_is_compiled(make: Any, capfd: Any, compile_counter: Any) -> None:
    with compile_counter() as compiled:
        make(NAMES, jit_compile=False, pre_warm=True)
    assert compiled.count == 0
    assert capfd.readouterr().err == ""


@single_by_default
def test_the_cache_directory_is_used(make: Any, tmp_path: Path) -> None:
    make(NAMES[:1], cache_dir=tmp_path / "cache").compile(progress=False)
    assert any((tmp_path / "cache").iterdir())


def test_ready_environments_are_used_as_they_are() -> None:
    envs: Any = [CounterEnv(), JitWrapper(PixelEnv(), pre_warm=False)]
    assert all(a is b for a, b in zip(make_multi(envs).envs, envs, strict=True))
    vec_envs: Any = {"b": VecEnv(CounterEnv(), 2), "a": Scene(3)}
    made = make_multi_vec(vec_envs).vec_envs
    assert list(made) == ["b", "a"] and all(made[k] is v for k, v in vec_envs.items())


def test_the_options_of_a_batch_reach_every_member() -> None:
    multi = make_multi_vec(NAMES, 3, final_obs=True, autoreset=Select(), donate=True)
    assert [member.autoreset for member in multi.envs] == [Select()] * 2
    state = multi.envs[0].reset(jax.random.key(0))[1]
    *_, info = multi.envs[0].step(state, [0, 1, 2])
    assert "final_obs" in info
    with pytest.raises((RuntimeError, ValueError), match="deleted"):
        multi.envs[0].step(state, [0, 1, 2])


def test_a_suite_is_a_list_of_names() -> None:
    spec = envrax.EnvSpec("Counter", CounterEnv, VectorConfig())
    suite = envrax.EnvSuite(prefix="fleet", specs=[spec])
    assert make_multi(suite).envs[0].config.max_steps == 9


READY: list[dict[str, Any]] = [
    *({"n_envs": 3}, {"jit_compile": False}, {"cache_dir": None}),
    *({"final_obs": True}, {"autoreset": Select()}, {"donate": True}),
]


@pytest.mark.parametrize("option", READY)
def test_options_with_ready_environments(option: dict[str, Any]) -> None:
    [name] = option
    with pytest.raises(ValueError, match=name):
        make_multi_vec([Scene(2)], **option)


@pytest.mark.parametrize(
    ("call", "error", "noun"),
    [
        (lambda: make_multi(NAMES[0]), TypeError, "list"),
        (lambda: make_multi(["fleet/Countr-v0"]), ValueError, "Countr"),
        (lambda: make_multi([3]), TypeError, "at 0"),
        (lambda: make_multi(NAMES, num_envs=3), TypeError, "num_envs"),
        (lambda: make_multi_vec([CounterEnv()]), TypeError, "BatchedEnvs"),
        (lambda: make_multi_vec(NAMES, 2, wrappers=[RecordVideo]), RuntimeError, "incompatible"),
    ],
)
def test_refusals(call: Any, error: Any, noun: str) -> None:
    with pytest.raises(error, match=noun):
        call()
