"""Deferred construction, copies of wrapped envs, and what the wrapper classes look like."""

import copy
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from fakes import CoinEnv, NestedEnv, PixelEnv, VectorConfig, VectorEnv
from helpers import assert_trees_equal

import envrax
from envrax import (
    ClipReward,
    FrameStackObservation,
    GrayscaleObservation,
    JitWrapper,
    RecordEpisodeStatistics,
    RecordVideo,
    ResizeObservation,
    RewardWrapper,
    VecEnv,
    Wrapper,
)

KEYWORDS: dict[str, dict[str, Any]] = {
    "JitWrapper": {"cache_dir": None, "pre_warm": False},
    "ResizeObservation": {"h": 6, "w": 5},
    "FrameStackObservation": {"n_stack": 2},
    "RecordVideo": {"output_dir": "videos", "fps": 10},
    "AtariPreprocessing": {"noop_max": 2, "screen_size": (5, 6), "scale_obs": True},
    "DelayObservation": {"delay": 2},
    "DiscretizeAction": {"bins": (3, 2), "multidiscrete": True},
    "DtypeObservation": {"dtype": "float32"},
    "FilterObservation": {"filter_keys": ("image",)},
    "RepeatAction": {"num_repeats": 2},
    "StickyAction": {"repeat_action_probability": 0.5},
    "RescaleAction": {"min_action": -2.0, "max_action": 3.0},
    "TimeAwareObservation": {"normalize_time": True, "dict_time_key": "when"},
    "TransformObservation": {"func": jnp.flip},
}
NAMES = ["GrayscaleObservation", "ClipReward", *KEYWORDS]


def fit(wrapper: Any) -> Any:
    """An env that the wrapper fits."""
    name = wrapper.__name__
    return (
        NestedEnv()
        if name == "FilterObservation"
        else CoinEnv()
        if "Action" in name
        else PixelEnv()
    )


each_wrapper = pytest.mark.parametrize("name", NAMES)


class Scale(RewardWrapper[Any, Any, Any, Any]):
    """A wrapper as users write it: a required keyword, called like one of the hooks."""

    def __init__(self, env: Any, reward: float, unused: Any = None) -> None:
        super().__init__(env)
        self.factor = reward

    def reward(self, reward: jax.Array) -> jax.Array:
        return reward * self.factor


@each_wrapper
def test_factory_waits_for_an_env_and_is_a_value(name: str) -> None:
    wrapper, keywords = getattr(envrax, name), KEYWORDS.get(name, {})
    factory, env = wrapper(**keywords), fit(wrapper)
    once, again = factory(env), factory(env)
    assert type(once) is type(again) is type(wrapper(env=env, **keywords)) is wrapper
    assert once is not again and once.unwrapped is again.unwrapped is env
    for key, value in keywords.items():
        assert getattr(once, key, value) == value
    written = ", ".join(f"{k}={v!r}" for k, v in keywords.items())
    assert repr(factory) == f"{name}({written})"
    for twin in (wrapper(**keywords), copy.deepcopy(factory), pickle.loads(pickle.dumps(factory))):
        assert twin == factory and hash(twin) == hash(factory)
        assert type(twin(fit(wrapper))) is wrapper
    assert factory != Scale(reward=1.0) and factory != wrapper


class Around(Wrapper[Any, Any, Any, Any]):
    """A wrapper whose first parameter has a name of its own."""

    def __init__(self, inner: Any, factor: float) -> None:
        super().__init__(inner)
        self.factor = factor


def test_the_environment_by_keyword_whatever_its_name() -> None:
    env = VectorEnv()
    wrapped: Any = Around(inner=env, factor=2.0)  # pyright: ignore[reportCallIssue]
    assert wrapped.env is env and wrapped.factor == 2.0
    assert repr(Around(factor=2.0)) == "Around(factor=2.0)"
    with pytest.raises(TypeError, match="keywords"):
        Around(env=env, factor=2.0)


@each_wrapper
def test_each_wrapper_survives_pickle_and_deepcopy(name: str, tmp_path: Any) -> None:
    wrapper, keywords = getattr(envrax, name), KEYWORDS.get(name, {})
    if wrapper is RecordVideo:
        keywords = {**keywords, "output_dir": tmp_path}
    env = wrapper(fit(wrapper), **keywords)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert type(twin) is wrapper and repr(twin) == repr(env)
        assert twin.env is not env.env
        assert twin.observation_space == env.observation_space


def test_factories_of_other_keywords_differ() -> None:
    assert ResizeObservation(h=3) != ResizeObservation(h=4)
    assert ResizeObservation(h=3, w=4) == ResizeObservation(w=4, h=3)
    assert len({ResizeObservation(h=3), ResizeObservation(h=3), ResizeObservation(w=3)}) == 2
    unhashable = Scale(reward=1.0, unused=[1])
    assert hash(unhashable) == hash(Scale(reward=1.0, unused=[1]))
    assert unhashable != Scale(reward=1.0, unused=[2])


def test_keywords_are_checked_where_they_are_written() -> None:
    for call in (lambda: ClipReward(hight=3), lambda: ClipReward(PixelEnv(), hight=3)):  # pyright: ignore
        with pytest.raises(TypeError, match="hight"):
            call()
    with pytest.raises(TypeError, match="'reward'"):
        Scale()
    assert Scale(reward=2.0)(VectorEnv()).factor == 2.0


@pytest.mark.parametrize("first", [3, None, PixelEnv, ClipReward, ClipReward()], ids=repr)
def test_first_argument_that_is_no_env_is_refused(first: Any) -> None:
    for call in (lambda: ResizeObservation(first), lambda: ResizeObservation(env=first)):
        with pytest.raises(TypeError, match="JaxEnv"):
            call()


def test_a_batch_of_envs_is_refused_with_the_way_to_do_it() -> None:
    with pytest.raises(TypeError, match="VecEnv"):
        ClipReward(VecEnv(PixelEnv(), 2))  # pyright: ignore


def test_subscripted_class_defers_too() -> None:
    assert ResizeObservation[Any, Any, Any](h=3) == ResizeObservation(h=3)
    assert type(ResizeObservation[Any, Any, Any](PixelEnv())) is ResizeObservation


def test_bare_class_and_function_stand_beside_factories() -> None:
    env: Any = PixelEnv()
    for wrap in [GrayscaleObservation, ResizeObservation(h=4, w=4), lambda env: ClipReward(env)]:
        env = wrap(env)
    assert repr(env) == (
        "ClipReward(ResizeObservation(GrayscaleObservation("
        "PixelEnv(VectorConfig(max_steps=5, gravity=0.5))), h=4, w=4))"
    )
    # A hook is not taken for a keyword.
    assert repr(Scale(VectorEnv(), reward=2.0)).startswith("Scale(VectorEnv(")


# Copies


def five_deep() -> Any:
    env = PixelEnv(VectorConfig(max_steps=3))
    env = RecordEpisodeStatistics(JitWrapper(GrayscaleObservation(env), pre_warm=False))
    return ClipReward(FrameStackObservation(env, n_stack=2))


def play(env: Any) -> Any:
    @jax.jit
    def two_steps(rng: jax.Array) -> Any:
        _, state = env.reset(rng)
        return env.step(env.step(state, 2)[1], 2)

    return two_steps(jax.random.key(0))


def test_wrapped_env_survives_a_copy() -> None:
    env = five_deep()
    played = play(env)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert repr(twin) == repr(env)
        assert twin.unwrapped is not env.unwrapped and twin.config == env.config
        assert_trees_equal(play(twin), played)
        assert twin.config is not env.config


def test_copy_of_a_copied_stack_with_a_video_on_top(tmp_path: Any) -> None:
    env = RecordVideo(five_deep(), tmp_path)
    env.reset(jax.random.key(0))
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert not twin.recording and env.recording  # one writer per file
    env.close()
