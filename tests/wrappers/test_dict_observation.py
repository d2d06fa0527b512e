"""`key=` of the four wrappers that take it, and what the wrappers of Gymnasium's names refuse."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinEnv, NestedEnv, PixelEnv, ScriptEnv, VectorEnv
from helpers import assert_trees_equal
from replay import History, Ours, play_ours
from wrapper_rows import ROWS

import envrax
from envrax import (
    Box,
    Dict,
    FrameStackObservation,
    GrayscaleObservation,
    NormalizeObservation,
    ResizeObservation,
    TimeLimit,
    VecEnv,
)
from envrax.testing import check_env

IMAGE = Box(0, 255, (4, 6, 3), jnp.uint8)
BOTH = Dict(image=IMAGE, speed=Box(-1.0, 1.0, (2,)))
WITH_KEY = [
    GrayscaleObservation,
    ResizeObservation(h=3, w=2),
    NormalizeObservation,
    FrameStackObservation(n_stack=3),
]


def keyed(factory: Any) -> Any:
    """The same wrapper for one entry."""
    keywords = getattr(factory, "kwargs", {})
    return getattr(factory, "wrapper", factory)(**keywords, key="image")


@pytest.mark.parametrize("factory", WITH_KEY, ids=str)
def test_one_entry_is_changed_as_if_it_were_alone(factory: Any) -> None:
    history = History(BOTH)
    alone = History(IMAGE)
    alone.obs = history.obs["image"]
    env, image = keyed(factory)(Ours(history)), factory(Ours(alone))
    assert env.observation_space == Dict(image=image.observation_space, speed=BOTH["speed"])
    seen, images = play_ours(env, [0] * 6)[0], play_ours(image, [0] * 6)[0]
    for t, (obs, expected) in enumerate(zip(seen, images, strict=True)):
        assert_trees_equal(obs, {"image": expected, "speed": history.obs["speed"][t]})
    assert "key='image'" in repr(env) and "key" not in repr(image)


def test_the_final_observation_is_changed_too() -> None:
    env = FrameStackObservation(TimeLimit(Ours(History(BOTH)), 2), n_stack=2, key="image")
    batch = VecEnv(env, 2, final_obs=True)
    _, state = batch.reset(jax.random.key(0))
    _, state, *_ = batch.step(state, jnp.zeros(2, jnp.int32))
    obs, _, _, done, info = batch.step(state, jnp.zeros(2, jnp.int32))
    assert done.all()
    frames = History(BOTH).obs["image"]
    np.testing.assert_array_equal(info["final_obs"]["image"][0], np.stack(frames[1:3], -1))
    np.testing.assert_array_equal(obs["image"][0], np.stack(frames[[0, 0]], -1))


@pytest.mark.parametrize("factory", WITH_KEY, ids=str)
def test_a_key_that_does_not_fit_is_refused(factory: Any) -> None:
    name = getattr(factory, "wrapper", factory).__name__
    with pytest.raises(
        TypeError, match=rf"{name}: expected observations in a Dict for key='image'"
    ):
        keyed(factory)(PixelEnv())
    other = Dict(imag=IMAGE, speed=BOTH["speed"])
    with pytest.raises(
        ValueError, match=rf"{name}: expected key to be one of imag, speed; .* Did you mean imag\?"
    ):
        keyed(factory)(ScriptEnv(other, obs=()))
    with pytest.raises(TypeError, match=rf"{name}: expected observations in a Box; got Dict"):
        keyed(factory)(ScriptEnv(Dict(image=BOTH), obs=()))


# Refusals

SPACE, OBS, PLANE = Box(-1.0, 1.0, (2,)), NestedEnv, CoinEnv
REFUSED: list[tuple[Any, str, dict[str, Any], type[Exception], str]] = [
    (VectorEnv, "TimeLimit", {"max_steps": 0}, ValueError, "max_steps to be at least 1; got 0"),
    (VectorEnv, "TimeLimit", {"max_steps": 2.5}, TypeError, "max_steps to be an int; got 2.5"),
    (NestedEnv, "ReshapeObservation", {"shape": 4}, TypeError, "observations in a Box; got Dict"),
    (VectorEnv, "ReshapeObservation", {"shape": (2, 2)}, ValueError, "a shape with 3 elements"),
    (NestedEnv, "DtypeObservation", {"dtype": "int8"}, TypeError, "a Box, Discrete, MultiDiscrete"),
    (PixelEnv, "DtypeObservation", {"dtype": "int8"}, ValueError, "a dtype that holds Box"),
    (PixelEnv, "DtypeObservation", {"dtype": "none"}, TypeError, "a dtype that holds Box"),
    (CoinEnv, "DtypeObservation", {"dtype": "uint8"}, ValueError, "a float dtype for Box"),
    (VectorEnv, "FilterObservation", {"filter_keys": ["a"]}, TypeError, "in a Dict or a Tuple"),
    (NestedEnv, "FilterObservation", {"filter_keys": "image"}, TypeError, "a list of str for Dict"),
    (NestedEnv, "FilterObservation", {"filter_keys": [0]}, TypeError, "a list of str for Dict"),
    (NestedEnv, "FilterObservation", {"filter_keys": []}, ValueError, "among both, image, each"),
    (NestedEnv, "FilterObservation", {"filter_keys": ["imag"]}, ValueError, "Did you mean image?"),
    (NestedEnv, "FilterObservation", {"filter_keys": ["both"] * 2}, ValueError, "each once"),
    (
        NestedEnv,
        "RescaleObservation",
        {"min_obs": 0, "max_obs": 1},
        TypeError,
        "in a Box; got Dict",
    ),
    (
        VectorEnv,
        "RescaleObservation",
        {"min_obs": 0, "max_obs": 1},
        ValueError,
        "infinite where",
    ),
    (PixelEnv, "RescaleObservation", {"min_obs": 2, "max_obs": 1}, ValueError, "to be bounds for"),
    (VectorEnv, "DelayObservation", {"delay": -1}, ValueError, "delay to be at least 0; got -1"),
    (PixelEnv, "MaxAndSkipObservation", {"skip": 1}, ValueError, "skip to be at least 2; got 1"),
    (NestedEnv, "MaxAndSkipObservation", {}, TypeError, "observations in a Box; got Dict"),
    (VectorEnv, "RepeatAction", {"num_repeats": 0}, ValueError, "num_repeats to be at least 1"),
    (
        VectorEnv,
        "ClipAction",
        {},
        TypeError,
        "a Box of floats or integers; got Discrete",
    ),
    (
        VectorEnv,
        *("RescaleAction", {"min_action": -1, "max_action": 1}),
        *(TypeError, "actions in a Box of floats; got Discrete(3)"),
    ),
    (
        CoinEnv,
        *("RescaleAction", {"min_action": 1, "max_action": 1}),
        *(ValueError, "min_action < max_action"),
    ),
    (VectorEnv, "DiscretizeAction", {"bins": 3}, TypeError, "actions in a Box of floats; got"),
    (CoinEnv, "DiscretizeAction", {"bins": (3, 0)}, ValueError, "bins to be at least 1; got 0"),
    (CoinEnv, "DiscretizeAction", {"bins": (3,)}, ValueError, "an int, or 2 bins for Box"),
    (CoinEnv, "DiscretizeAction", {"bins": 1 << 20}, ValueError, "at most 2**31 - 1 combinations"),
    (
        VectorEnv,
        *("StickyAction", {"repeat_action_probability": 1.0}),
        *(ValueError, "0 <= repeat_action_probability < 1; got 1.0"),
    ),
    (
        VectorEnv,
        *("StickyAction", {"repeat_action_probability": "often"}),
        *(TypeError, "repeat_action_probability to be a number; got 'often'"),
    ),
    (VectorEnv, "TransformObservation", {"func": jnp.sum}, TypeError, "func to return elements of"),
    (CoinEnv, "TransformAction", {"func": jnp.sum}, TypeError, "func to return elements of Box"),
    (VectorEnv, "AtariPreprocessing", {}, TypeError, "uint8 images; got Box"),
    (PixelEnv, "AtariPreprocessing", {"frame_skip": 0}, ValueError, "frame_skip to be at least 1"),
    (PixelEnv, "AtariPreprocessing", {"noop_max": -1}, ValueError, "noop_max to be at least 0"),
    (PixelEnv, "AtariPreprocessing", {"screen_size": (1, 2, 3)}, ValueError, "(width, height)"),
    (
        PixelEnv,
        *("AtariPreprocessing", {"terminal_on_life_loss": True}),
        *(ValueError, "a number of lives in info['lives']"),
    ),
]


@pytest.mark.parametrize(
    ("env_class", "name", "keywords", "error", "expected"),
    REFUSED,
    ids=[f"{i}-{case[1]}" for i, case in enumerate(REFUSED)],
)
def test_what_does_not_fit_is_refused(
    env_class: Any, name: str, keywords: dict[str, Any], error: type[Exception], expected: str
) -> None:
    wrapper = getattr(envrax, name)
    for build in (
        lambda: wrapper(env_class(), **keywords),
        lambda: wrapper(**keywords)(env_class()),
    ):
        with pytest.raises(error) as refusal:
            build()
        said = str(refusal.value)
        assert said.startswith(f"{name}: expected") and expected in said and "got" in said


def test_a_key_that_the_time_would_take_is_refused() -> None:
    env = ScriptEnv(Dict(time=SPACE), obs=())
    with pytest.raises(ValueError, match="expected observations without the key 'time'; got Dict"):
        envrax.TimeAwareObservation(env)


# Time limits of environments that say less


@pytest.mark.parametrize("reasons", [(), ("terminated",), ("truncated",)])
def test_an_end_without_a_reason_is_a_termination(reasons: tuple[str, ...]) -> None:
    for ends, expected in [({3: "terminated"}, [True, False]), ({3: "truncated"}, [False, True])]:
        env = TimeLimit(Ours(History(SPACE, ends=ends), reasons))
        rest = play_ours(env, [0] * 5)[1]
        assert len(rest) == 3 and not any(any(flags) for _, *flags in rest[:-1])
        assert rest[-1][1:] == (expected if reasons else [True, False])


def test_statistics_that_would_miss_its_ends_are_refused() -> None:
    said = "TimeLimit: expected RecordEpisodeStatistics around it; got RecordEpisodeStatistics"
    with pytest.raises(TypeError, match=said):
        TimeLimit(envrax.RecordEpisodeStatistics(VectorEnv()), max_steps=3)


def test_the_default_limit_is_that_of_the_config() -> None:
    class Endless(VectorEnv):
        def step(self, state: Any, action: Any) -> Any:
            obs, state, reward, _, _ = super().step(state, action)
            never = jnp.bool_(False)
            return obs, state.replace(done=never), reward, never, {}

    env = envrax.EpisodeDiscount(TimeLimit(envrax.ExpandDims(Endless())))
    _, state = env.reset(jax.random.key(0))
    discounts: list[Any] = []
    info: dict[str, Any] = {}
    for _ in range(5):
        _, state, _, discount, info = env.step(state, jnp.int32(0))
        discounts.append(discount.tolist())
    assert discounts == [[1.0]] * 4 + [[0.0]]
    assert bool(info["truncated"]) and not bool(info["terminated"]) and bool(state.done)


@pytest.mark.slow
@pytest.mark.parametrize("row", ["gymnasium", "key", "AtariPreprocessing", "FlattenObservation"])
def test_the_stacks_pass_the_checks(row: str) -> None:
    wrap, (env_class, *_) = ROWS[row]
    check_env(wrap(env_class()))


def test_on_the_host_steps_are_repeated_in_python(tmp_path: Any) -> None:
    def run(env: Any) -> Any:
        obs, state = env.reset(jax.random.key(3))
        out = [(obs, state)]
        for _ in range(2):
            out.append(env.step(out[-1][1], jnp.int32(2)))
        return out

    filmed = envrax.RecordVideo(PixelEnv(), tmp_path)
    stack = envrax.AtariPreprocessing(noop_max=2, frame_skip=3, screen_size=6)
    assert_trees_equal(run(stack(filmed)), run(stack(PixelEnv())))
