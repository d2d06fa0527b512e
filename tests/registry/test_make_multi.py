"""`make_multi` and `make_multi_vec`: from names, or from ready environments, to a fleet."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest
from batched_fakes import Scene
from fakes import CounterEnv, PixelEnv, VectorConfig

import envrax
from envrax import (
    ClipReward,
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
from envrax.wrappers.jit import compilation

NAMES = ["fleet/Counter-v0", "fleet/Pixel-v0"]


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    envrax.register(NAMES[0], CounterEnv, VectorConfig(max_steps=9))
    envrax.register(NAMES[1], PixelEnv, VectorConfig())
    yield
    for name in NAMES:
        envrax.unregister(name)


def make(factory: Any, names: Any, **kwargs: Any) -> Any:
    return factory(names, **({"n_envs": 3} if factory is make_multi_vec else {}), **kwargs)


FACTORIES = [(make_multi, MultiEnv), (make_multi_vec, MultiVecEnv)]
single_by_default = pytest.mark.parametrize(
    ("factory", "fleet"), [FACTORIES[0], pytest.param(*FACTORIES[1], marks=pytest.mark.slow)]
)


@pytest.mark.parametrize(("factory", "fleet"), FACTORIES)
def test_from_names(factory: Any, fleet: Any) -> None:
    multi = make(factory, NAMES)
    assert type(multi) is fleet and multi.env_keys == ["CounterEnv", "PixelEnv"]
    assert [member.config.max_steps for member in multi.envs] == [9, 5]
    keyed = make(factory, {"b": NAMES[1], "a": NAMES[0]})
    assert keyed.env_keys == ["b", "a"] and list(keyed.envs) == ["b", "a"]
    assert isinstance(keyed.envs["b"].unwrapped, PixelEnv)


@single_by_default
def test_the_wrappers_go_around_each(factory: Any, fleet: Any) -> None:
    wrappers = [GrayscaleObservation, FrameStackObservation(n_stack=2)]
    multi = make(factory, [NAMES[1]] * 2, wrappers=wrappers)
    obs, _ = multi.reset(jax.random.key(0))
    assert [x.shape[-3:] for x in obs] == [(12, 10, 2)] * 2
    with pytest.raises(TypeError, match=r"GrayscaleObservation: expected"):
        make(factory, NAMES, wrappers=wrappers)


@single_by_default
@pytest.mark.parametrize("pre_warm", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_pre_warm(factory: Any, fleet: Any, pre_warm: bool, compile_counter: Any) -> None:
    rng = jax.random.key(0)
    with compile_counter() as before:
        multi = make(factory, NAMES, pre_warm=pre_warm)
    with compile_counter() as compiled:
        _, states = multi.reset(rng)
    assert (before.count > 0, compiled.count > 0) == (pre_warm, not pre_warm)


@pytest.mark.parametrize(("factory", "fleet"), FACTORIES)
def test_for_debugging_nothing_is_compiled(factory: Any, fleet: Any, capfd: Any) -> None:
    multi = make(factory, NAMES, jit_compile=False, pre_warm=True)
    assert [compilation(member) for member in multi.envs] == [None, None]
    assert capfd.readouterr().err == ""


@single_by_default
def test_the_cache_directory_is_used(factory: Any, fleet: Any, tmp_path: Path) -> None:
    make(factory, NAMES[:1], cache_dir=tmp_path / "cache").compile(progress=False)
    assert any((tmp_path / "cache").iterdir())


def test_ready_environments_are_used_as_they_are() -> None:
    envs: Any = [CounterEnv(), JitWrapper(PixelEnv(), pre_warm=False)]
    assert all(a is b for a, b in zip(make_multi(envs).envs, envs, strict=True))
    vec_envs: Any = {"b": VecEnv(CounterEnv(), 2), "a": Scene(3)}
    made = make_multi_vec(vec_envs).vec_envs
    assert list(made) == ["b", "a"] and all(made[k] is v for k, v in vec_envs.items())


def test_final_obs_of_every_member() -> None:
    multi = make_multi_vec(NAMES, 3, final_obs=True)
    _, states = multi.reset(jax.random.key(0))
    *_, infos = multi.step(states, [[0, 1, 2]] * 2)
    assert all("final_obs" in info for info in infos)


def test_the_options_of_a_batch_reach_every_member() -> None:
    multi = make_multi_vec(NAMES, 3, autoreset=Select(), donate=True)
    assert [member.autoreset for member in multi.envs] == [Select()] * 2
    _, state = multi.envs[0].reset(jax.random.key(0))
    multi.envs[0].step(state, [0, 1, 2])
    with pytest.raises(RuntimeError, match="donated"):
        multi.envs[0].step(state, [0, 1, 2])


def test_a_suite_is_a_list_of_names() -> None:
    spec = envrax.EnvSpec("Counter", CounterEnv, VectorConfig())
    suite = envrax.EnvSuite(prefix="fleet", specs=[spec])
    assert make_multi(suite).envs[0].config.max_steps == 9


def test_a_video_of_one_member(tmp_path: Path) -> None:
    multi = make_multi(NAMES[1:], wrappers=[RecordVideo(output_dir=tmp_path)])
    assert compilation(multi.envs[0]) is not None and not multi.envs[0].traceable
    _, states = multi.reset(jax.random.key(0))
    for _ in range(5):
        _, states, *_ = multi.step(states, [0])
    multi.close()
    assert [path.name for path in tmp_path.iterdir()] == ["episode_0000.mp4"]


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: make_multi([]), ValueError, r"MultiEnv requires at least one environment\."),
        (lambda: make_multi_vec({}, 3), ValueError, r"MultiVecEnv requires at least one VecEnv\."),
        (
            lambda: make_multi(NAMES[0]),
            TypeError,
            r"make_multi: expected a list or a dict of names",
        ),
        (lambda: make_multi(CounterEnv()), TypeError, r"make_multi: expected a list or a dict"),
        (
            lambda: make_multi([*NAMES, "fleet/Countr-v0"]),
            ValueError,
            r"Unknown environment .*Count",
        ),
        (lambda: make_multi([3]), TypeError, r"MultiEnv: expected JaxEnvs; got 3 at 0\."),
        (
            lambda: make_multi([NAMES[0], CounterEnv()]),
            TypeError,
            r"make_multi: expected names alone or environments alone; got 1 of 2 as names, and Cou",
        ),
        (
            lambda: make_multi([CounterEnv()], wrappers=[ClipReward]),
            ValueError,
            r"make_multi: expected wrappers with names only; got ready environments",
        ),
        (
            lambda: make_multi_vec([Scene(2)], 3, wrappers=[ClipReward]),
            ValueError,
            r"make_multi_vec: expected n_envs and wrappers with names only",
        ),
        *(
            (
                lambda option=option: make_multi_vec([Scene(2)], **option),
                ValueError,
                f"make_multi_vec: expected {next(iter(option))} with names only",
            )
            for option in (
                {"jit_compile": False},
                {"cache_dir": None},
                {"final_obs": True},
                {"autoreset": Select()},
                {"donate": True},
            )
        ),
        (
            lambda: make_multi([CounterEnv()], jit_compile=False, cache_dir="here"),
            ValueError,
            r"make_multi: expected jit_compile and cache_dir with names only",
        ),
        (
            lambda: make_multi(NAMES, num_envs=3),
            TypeError,
            r"make: expected the keywords .*got num_envs\.",
        ),
        (
            lambda: make_multi_vec(NAMES, {"a": 3}),  # pyright: ignore
            TypeError,
            r"make_vec: expected n_envs to be an int; got {'a': 3}",
        ),
        (lambda: make_multi_vec(NAMES), ValueError, r"make_multi_vec: expected n_envs, .*got none"),
        (lambda: make_multi_vec(NAMES, 0), ValueError, r"n_envs to be at least 1; got 0"),
        (
            lambda: make_multi_vec([CounterEnv()]),
            TypeError,
            r"MultiVecEnv: expected BatchedEnvs; got CounterEnv.* at 0",
        ),
        (
            lambda: make_multi_vec(NAMES, 2, wrappers=[RecordVideo]),
            RuntimeError,
            r"incompatible with JAX transforms",
        ),
    ],
)
def test_refusals(call: Any, error: Any, sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        call()
