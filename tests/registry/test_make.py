"""`make` and `make_vec`: from a registered name to what is ready to step."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CounterEnv, PixelEnv, VectorConfig
from helpers import assert_trees_equal

from envrax import (
    ClipReward,
    EnvConfig,
    EpisodeDiscount,
    FrameStackObservation,
    GrayscaleObservation,
    JitWrapper,
    RecordEpisodeStatistics,
    RecordVideo,
    ResizeObservation,
    VecEnv,
    make,
    make_vec,
    register,
    unregister,
)
from envrax.wrappers.base import layers

# `make` compiles by default; a test that is not about that says so.
plain = partial(make, jit_compile=False)
plain_vec = partial(make_vec, jit_compile=False)


class TracedEnv(CounterEnv):
    """Notes every time that Python runs its step."""

    calls = 0

    def step(self, state: Any, action: Any) -> tuple[Any, ...]:
        TracedEnv.calls += 1
        return super().step(state, action)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """Three environments, and no note of a call."""
    TracedEnv.calls = 0
    names = {"Counter-v0": CounterEnv, "Pixel-v0": PixelEnv, "Traced-v0": TracedEnv}
    for name, cls in names.items():
        register(name, cls, VectorConfig(max_steps=4))
    yield
    for name in names:
        unregister(name)


def stack(env: Any) -> list[type]:
    return [type(layer) for layer in layers(env)]


def test_make_compiles_and_warms() -> None:
    env = make("Counter-v0")
    assert stack(env) == [JitWrapper, CounterEnv]
    assert env.name == "CounterEnv"
    assert env.config == VectorConfig(max_steps=4)


def test_what_is_warmed_is_what_is_called(compile_counter: Any) -> None:
    wrappers = [ClipReward, RecordEpisodeStatistics]
    env = make("Counter-v0", wrappers=wrappers)
    vec_env = make_vec("Counter-v0", 2, wrappers=wrappers)
    keys = [jax.random.key(0), jax.random.PRNGKey(0)]
    with compile_counter() as compiled:
        for rng in keys:
            env.step(env.step(env.reset(rng)[1], 1)[1], 2)
            vec_env.step(vec_env.step(vec_env.reset(rng)[1], [0, 1])[1], np.asarray([1, 2]))
    assert compiled.count == 0


@pytest.mark.parametrize("build", [make, partial(make_vec, n_envs=2)])
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
    for each, action in ((env, 1), (vec_env, [0, 1])):
        TracedEnv.calls, state = 0, each.reset(jax.random.key(0))[1]
        for t in range(1, 3):
            state = each.step(state, action)[1]
            assert TracedEnv.calls == t


def test_eager_and_compiled_agree() -> None:
    ours, theirs = make("Counter-v0"), plain("Counter-v0")
    first = ours.reset(jax.random.key(3))
    assert_trees_equal(first, theirs.reset(jax.random.key(3)))
    assert_trees_equal(ours.step(first[1], 1), theirs.step(first[1], 1))


def test_wrappers_apply_innermost_first_in_all_their_forms() -> None:
    image = [GrayscaleObservation, ResizeObservation(h=6, w=5), lambda env: ClipReward(env)]
    expected = [ClipReward, ResizeObservation, GrayscaleObservation, PixelEnv]
    env = plain("Pixel-v0", wrappers=image)
    assert stack(env) == expected
    assert env.observation_space.shape == (6, 5)
    assert stack(plain("Pixel-v0", wrappers=tuple(image))) == expected
    assert stack(make("Pixel-v0", wrappers=image, pre_warm=False)) == [JitWrapper, *expected]
    assert stack(plain("Pixel-v0", wrappers=[])) == [PixelEnv]
    vec_env = make_vec("Pixel-v0", 2, wrappers=image, pre_warm=False)
    assert stack(vec_env.env) == [JitWrapper, *expected]
    assert vec_env.observation_space.shape == (2, 6, 5)


def test_the_entries_of_wrappers_can_be_used_again() -> None:
    wrappers = [FrameStackObservation(n_stack=2)]
    one, two = (plain("Counter-v0", wrappers=wrappers) for _ in range(2))
    assert one is not two and one.unwrapped is not two.unwrapped


def test_a_config_replaces_the_registered_one() -> None:
    config = VectorConfig(max_steps=2)
    assert plain("Counter-v0", config=config).config is config
    assert plain_vec("Counter-v0", 2, config=config).config is config
    assert plain("Counter-v0").config.max_steps == 4


def test_a_parent_config_may_be_registered() -> None:
    register("Wide-v0", PixelEnv, EnvConfig(max_steps=500))
    try:
        assert plain("Wide-v0").config == VectorConfig(max_steps=500)
    finally:
        unregister("Wide-v0")


def test_make_vec_builds_a_vec_env() -> None:
    vec_env = make_vec("Counter-v0", n_envs=3, pre_warm=False, wrappers=[EpisodeDiscount])
    assert isinstance(vec_env, VecEnv)
    assert vec_env.num_envs == 3 and vec_env.name == "CounterEnv"
    assert stack(vec_env.env) == [JitWrapper, EpisodeDiscount, CounterEnv]


def test_make_vec_passes_final_obs_on() -> None:
    for final_obs in (False, True):
        vec_env = plain_vec("Counter-v0", 2, final_obs=final_obs)
        infos = vec_env.step(vec_env.reset(jax.random.key(0))[1], [0, 1])[4]
        assert ("final_obs" in infos) is final_obs


@pytest.mark.parametrize(
    "above",
    [pytest.param([], marks=pytest.mark.slow), [ClipReward]],
    ids=["outermost", "beneath another"],
)
def test_compilation_stops_beneath_a_wrapper_that_works_on_the_host(
    above: list[Any], tmp_path: Path, compile_counter: Any
) -> None:
    video = RecordVideo(output_dir=tmp_path, episode_trigger=lambda episode: False)
    wrappers = [GrayscaleObservation, video, *above]
    env = make("Pixel-v0", wrappers=wrappers)
    assert stack(env) == [*above, RecordVideo, JitWrapper, GrayscaleObservation, PixelEnv]
    _, state = env.reset(jax.random.key(0))
    inner = list(layers(env))[-3]
    with compile_counter() as compiled:
        inner.step(state, 1)
    assert compiled.count == 0
    assert stack(plain("Pixel-v0", wrappers=wrappers)) == [
        *(*above, RecordVideo),
        *(GrayscaleObservation, PixelEnv),
    ]


@pytest.mark.parametrize("jit_compile", [True, False])
def test_make_vec_refuses_a_wrapper_that_works_on_the_host(
    jit_compile: bool, tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError, match="incompatible with JAX transforms") as error:
        wrappers = [RecordVideo(output_dir=tmp_path), ClipReward]
        make_vec("Pixel-v0", 2, wrappers=wrappers, jit_compile=jit_compile)
    assert "RecordVideo" in str(error.value) and "render_slot" in str(error.value)


@pytest.mark.parametrize("build", [make, partial(make_vec, n_envs=2)])
def test_refusals(build: Any) -> None:
    with pytest.raises(ValueError, match=r"Unknown environment 'Conuter-v0'.*'Counter-v0'"):
        build("Conuter-v0")
    with pytest.raises(TypeError, match=r"CounterEnv.*FakeConfig.*dict"):
        build("Counter-v0", config={"max_steps": 3})
    for wrong in (ClipReward, "ClipReward", ClipReward(CounterEnv())):
        with pytest.raises(TypeError, match="expected `wrappers` to be a list; got"):
            build("Counter-v0", wrappers=wrong)
    for wrong in (ClipReward(CounterEnv()), "ClipReward", lambda env: None, None):
        with pytest.raises(TypeError, match="every entry of `wrappers` to make a JaxEnv"):
            build("Counter-v0", wrappers=[wrong])
    with pytest.raises(TypeError, match=r"GrayscaleObservation.*uint8"):
        build("Counter-v0", wrappers=[GrayscaleObservation])


@pytest.mark.parametrize("n_envs", [0, -3])
def test_make_vec_refuses_fewer_than_one(n_envs: int) -> None:
    with pytest.raises(ValueError, match=f"at least 1; got {n_envs}"):
        make_vec("Counter-v0", n_envs)


def test_an_env_that_returns_a_float_done_is_refused() -> None:
    class FloatDone(CounterEnv):
        def step(self, state: Any, action: Any) -> tuple[Any, ...]:
            *rest, done, info = super().step(state, action)
            return *rest, done.astype(jnp.float32), info

    register("FloatDone-v0", FloatDone, VectorConfig())
    try:
        with pytest.raises(TypeError, match=r"FloatDone.step: expected done of shape \(\), bool"):
            make_vec("FloatDone-v0", 2)
    finally:
        unregister("FloatDone-v0")


def test_make_is_a_function_and_a_module_whatever_is_imported_first(run_python: Any) -> None:
    run_python(
        """
        import importlib, sys

        orders = [
            "import envrax",
            "from envrax.make import make_vec",
            "import envrax.make",
            "import envrax.vec_env, envrax.make, envrax.envs, envrax.wrappers",
            "from envrax import make; import envrax.make",
            "import importlib; importlib.import_module('envrax.make')",
        ]
        for order in orders:
            for name in [name for name in sys.modules if name.split(".")[0] == "envrax"]:
                del sys.modules[name]
            exec(order)
            import envrax
            from envrax.make import make, make_vec
            assert envrax.make is make and callable(make), order
            assert envrax.make_vec is make_vec, order
            assert importlib.import_module("envrax.make").make is make, order
        """
    )
