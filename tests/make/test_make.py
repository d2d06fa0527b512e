"""`make` and `make_vec`: from a registered name to an environment that is ready to step."""

from functools import partial
from typing import Any

import chex
import jax
import numpy as np
import pytest
from fakes import CounterEnv, PixelEnv, VectorConfig, VectorEnv

from envrax import (
    ClipReward,
    EnvConfig,
    FrameStackObservation,
    GrayscaleObservation,
    JitWrapper,
    RecordEpisodeStatistics,
    ResizeObservation,
    VecEnv,
    Wrapper,
    get_spec,
    make,
    make_vec,
    register,
)
from envrax.wrappers.base import layers

# `make` compiles by default; a test that is not about that says so.
plain = partial(make, jit_compile=False)
plain_vec = partial(make_vec, jit_compile=False)
both = pytest.mark.parametrize("build", [make, partial(make_vec, n_envs=2)])


class TracedEnv(CounterEnv):
    """Notes every time that Python runs its step."""

    calls = 0

    def step(self, state: Any, action: Any) -> tuple[Any, ...]:
        TracedEnv.calls += 1
        return super().step(state, action)


@pytest.fixture(autouse=True)
def registered(clean_registry: None) -> None:
    """Four environments, and no note of a call."""
    TracedEnv.calls = 0
    for cls in (CounterEnv, PixelEnv, TracedEnv):
        register(f"{cls.__name__[:-3]}-v0", cls, VectorConfig(max_steps=4))
    register("Grey-v0", PixelEnv, VectorConfig(), wrappers=[GrayscaleObservation])


def stack(env: Any) -> list[type]:
    return [type(layer) for layer in layers(env)]


# What is compiled


def test_what_is_warmed_is_what_is_called(compile_counter: Any) -> None:
    wrappers = [ClipReward, RecordEpisodeStatistics]
    env = make("Counter-v0", wrappers=wrappers)
    vec_env = make_vec("Counter-v0", 2, wrappers=wrappers)
    rng = jax.random.key(0)
    with compile_counter() as compiled:
        env.step(env.step(env.reset(rng)[1], 1)[1], 2)
        vec_env.step(vec_env.step(vec_env.reset(rng)[1], [0, 1])[1], np.asarray([1, 2]))
    assert compiled.count == 0


@both
def test_without_pre_warm_the_first_calls_compile(build: Any, compile_counter: Any) -> None:
    rng = jax.random.key(0)
    with compile_counter() as compiled:
        env = build("Traced-v0", pre_warm=False)
    assert compiled.count == TracedEnv.calls == 0
    actions = np.zeros(env.action_space.shape, np.int32)
    with compile_counter() as compiled:
        state = env.reset(rng)[1]
        for _ in range(3):
            state = env.step(state, actions)[1]
    assert compiled.count == 2
    assert TracedEnv.calls == 1


def test_jit_compile_false_compiles_nothing(compile_counter: Any) -> None:
    with compile_counter() as compiled:
        env, vec_env = plain("Traced-v0"), plain_vec("Traced-v0", 2)
        vec_env.compile()
    assert compiled.count == 0
    assert stack(env) == stack(vec_env.env) == [TracedEnv]
    state = env.reset(jax.random.key(0))[1]
    for t in range(1, 3):
        state = env.step(state, 1)[1]
        assert TracedEnv.calls == t


# Wrappers


def test_wrappers_apply_innermost_first_in_all_their_forms() -> None:
    image = [GrayscaleObservation, ResizeObservation(h=6, w=5), lambda env: ClipReward(env)]
    expected = [ClipReward, ResizeObservation, GrayscaleObservation, PixelEnv]
    for wrappers in (image, tuple(image)):
        env = plain("Pixel-v0", wrappers=wrappers)
        assert stack(env) == expected
        assert env.observation_space.shape == (6, 5)
    assert stack(plain("Pixel-v0", wrappers=[])) == [PixelEnv]
    assert stack(make("Pixel-v0", wrappers=image, pre_warm=False)) == [JitWrapper, *expected]
    vec_env = make_vec("Pixel-v0", 3, wrappers=image, pre_warm=False)
    assert isinstance(vec_env, VecEnv) and vec_env.num_envs == 3 and vec_env.name == "PixelEnv"
    assert stack(vec_env.env) == [JitWrapper, *expected]
    assert vec_env.observation_space.shape == (3, 6, 5)


def test_wrappers_of_the_environment_are_innermost() -> None:
    inner = [GrayscaleObservation, PixelEnv]
    assert get_spec("Grey-v0").wrappers == (GrayscaleObservation,)
    assert stack(plain("Grey-v0")) == inner
    wrappers = [FrameStackObservation(n_stack=2)]
    expected = [JitWrapper, FrameStackObservation, *inner]
    assert stack(make("Grey-v0", wrappers=wrappers, pre_warm=False)) == expected
    assert stack(make_vec("Grey-v0", 2, wrappers=wrappers, pre_warm=False).env) == expected


class OnHost(Wrapper[Any, Any, Any, Any]):
    """Keeps what it was made around."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.kept = env

    @property
    def traceable(self) -> bool:
        return False


@pytest.mark.parametrize("own", [0, 1, 2])
@pytest.mark.parametrize("above", [[], [ClipReward], [ClipReward, OnHost]])
def test_compilation_stops_beneath_a_wrapper_on_the_host(own: int, above: list[Any]) -> None:
    wrappers = [ClipReward, OnHost, *above]
    register("New-v0", CounterEnv, VectorConfig(), wrappers=wrappers[:own])
    env: Any = make("New-v0", wrappers=wrappers[own:], pre_warm=False)
    assert stack(env) == [*reversed(above), OnHost, JitWrapper, ClipReward, CounterEnv]
    host = list(layers(env))[len(above)]
    assert host.kept is host.env
    eager = plain("New-v0", wrappers=wrappers[own:])
    assert stack(eager) == [*reversed(above), OnHost, ClipReward, CounterEnv]


@both
def test_wrappers_that_are_none(build: Any, compile_counter: Any) -> None:
    with compile_counter() as compiled:
        for wrong in ("ClipReward", ClipReward(CounterEnv()), 0):
            with pytest.raises(TypeError, match="list"):
                build("Counter-v0", wrappers=wrong)
        for wrong in (ClipReward(CounterEnv()), "ClipReward", lambda env: None, None):
            with pytest.raises(TypeError, match="JaxEnv"):
                build("Counter-v0", wrappers=[OnHost, wrong])
    assert compiled.count == 0


# Configs


@chex.dataclass
class Wide(VectorConfig):
    colour: str = "red"


@both
def test_a_config_of_a_parent_class_changes_the_registered_one(build: Any) -> None:
    register("New-v0", VectorEnv, Wide(gravity=0.7, colour="blue"))
    made = partial(build, "New-v0", jit_compile=False)
    assert made().config == Wide(gravity=0.7, colour="blue")
    expected = Wide(max_steps=7, gravity=0.7, colour="blue")
    assert made(config=EnvConfig(max_steps=7)).config == made(max_steps=7).config == expected
    assert made(config=VectorConfig()).config == Wide(colour="blue")
    full = Wide(max_steps=7)
    assert made(config=full).config is full
    assert (made(config=full, max_steps=3).config.max_steps, full.max_steps) == (3, 7)
    assert get_spec("New-v0").default_config == Wide(gravity=0.7, colour="blue")
    register("Old-v0", VectorEnv, EnvConfig(max_steps=9))
    assert build("Old-v0", config=full, jit_compile=False).config is full


@both
def test_unknown_fields_are_refused(build: Any) -> None:
    for keyword, advice in (
        ("max_step", "max_steps"),
        ("max_episode_steps", "max_steps"),
        ("wraper", "wrappers"),
    ):
        with pytest.raises(TypeError, match=advice):
            build("Counter-v0", **{keyword: 1})


def test_make_vec_passes_final_obs_on() -> None:
    for final_obs in (False, True):
        vec_env = plain_vec("Counter-v0", 2, final_obs=final_obs)
        state = jax.eval_shape(vec_env.reset, jax.random.key(0))[1]
        infos = jax.eval_shape(vec_env.step, state, np.zeros(2, np.int32))[4]
        assert ("final_obs" in infos) is final_obs


@chex.dataclass
class DonateConfig(VectorConfig):
    """Fields named like options of `make_vec`."""

    donate: bool = False
    wrappers: int = 0


def test_a_field_named_like_an_option_is_set_by_config() -> None:
    register("Donate-v0", VectorEnv, DonateConfig(max_steps=4))
    env: Any = plain_vec("Donate-v0", 2, config=DonateConfig(wrappers=3), wrappers=[ClipReward])
    assert env.config.wrappers == 3 and stack(env.env) == [ClipReward, VectorEnv]
    assert plain("Donate-v0", max_steps=7).config.max_steps == 7


@pytest.mark.parametrize("given", [CounterEnv, CounterEnv()])
def test_an_environment_in_place_of_a_name(given: Any) -> None:
    cases: Any = (
        (make_vec, (4,), "VecEnv(CounterEnv(), 4)"),
        (make, (), "JitWrapper(CounterEnv())"),
    )
    for factory, args, instead in cases:
        with pytest.raises(TypeError) as found:
            factory(given, *args)
        assert str(found.value).endswith(f"Write `{instead}`.")
