"""Deferred construction, copies of wrapped envs, and what the wrapper classes look like."""

import copy
import operator
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from fakes import CoinEnv, NestedEnv, PixelEnv, VectorConfig, VectorEnv
from helpers import assert_trees_equal

from envrax import (
    AtariPreprocessing,
    ClipAction,
    ClipReward,
    DelayObservation,
    DiscretizeAction,
    DtypeObservation,
    EpisodeDiscount,
    ExpandDims,
    FilterObservation,
    FlattenObservation,
    FrameStackObservation,
    GrayscaleObservation,
    JitWrapper,
    MaxAndSkipObservation,
    NormalizeObservation,
    RecordEpisodeStatistics,
    RecordVideo,
    RepeatAction,
    RescaleAction,
    RescaleObservation,
    ReshapeObservation,
    ResizeObservation,
    RewardWrapper,
    StickyAction,
    TimeAwareObservation,
    TimeLimit,
    TransformAction,
    TransformObservation,
    TransformReward,
    VecEnv,
)

KEYWORDS: dict[Any, dict[str, Any]] = {
    GrayscaleObservation: {},
    NormalizeObservation: {},
    ClipReward: {},
    ExpandDims: {},
    EpisodeDiscount: {},
    RecordEpisodeStatistics: {},
    ClipAction: {},
    FlattenObservation: {},
    JitWrapper: {"cache_dir": None, "pre_warm": False},
    ResizeObservation: {"h": 6, "w": 5},
    FrameStackObservation: {"n_stack": 2},
    RecordVideo: {"output_dir": "videos", "fps": 10},
    AtariPreprocessing: {"noop_max": 2, "screen_size": (5, 6), "scale_obs": True},
    DelayObservation: {"delay": 2},
    DiscretizeAction: {"bins": (3, 2), "multidiscrete": True},
    DtypeObservation: {"dtype": "float32"},
    FilterObservation: {"filter_keys": ("image",)},
    MaxAndSkipObservation: {"skip": 3},
    RepeatAction: {"num_repeats": 2},
    RescaleAction: {"min_action": -2.0, "max_action": 3.0},
    RescaleObservation: {"min_obs": -1.0, "max_obs": 2.0},
    ReshapeObservation: {"shape": (10, 36)},
    StickyAction: {"repeat_action_probability": 0.5},
    TimeAwareObservation: {"normalize_time": True, "dict_time_key": "when"},
    TimeLimit: {"max_steps": 7},
    TransformAction: {"func": operator.neg},
    TransformObservation: {"func": jnp.flip},
    TransformReward: {"func": operator.abs},
}

# The env that a wrapper fits, if it is not `PixelEnv`.
FITS: dict[Any, Any] = {
    ClipAction: CoinEnv,
    DiscretizeAction: CoinEnv,
    FilterObservation: NestedEnv,
    RescaleAction: CoinEnv,
}


def fit(wrapper: Any) -> Any:
    """An env that the wrapper fits."""
    return FITS.get(wrapper, PixelEnv)()


each_wrapper = pytest.mark.parametrize("wrapper", KEYWORDS, ids=lambda cls: cls.__name__)


class Scale(RewardWrapper[Any, Any, Any, Any]):
    """A wrapper as users write it: a required keyword, called like one of the hooks."""

    def __init__(self, env: Any, reward: float, unused: Any = None) -> None:
        super().__init__(env)
        self.factor = reward

    def reward(self, reward: jax.Array) -> jax.Array:
        return reward * self.factor


@each_wrapper
def test_factory_waits_for_an_env(wrapper: Any) -> None:
    factory = wrapper(**KEYWORDS[wrapper])
    env = fit(wrapper)
    once, again = factory(env), factory(env)
    assert type(once) is type(again) is wrapper
    assert once is not again and once.unwrapped is again.unwrapped is env
    assert wrapper is AtariPreprocessing or once.env is env  # that one is a stack
    for name, value in KEYWORDS[wrapper].items():
        assert getattr(once, name, value) == value
    assert type(wrapper(env, **KEYWORDS[wrapper])) is wrapper
    assert type(wrapper(env=env, **KEYWORDS[wrapper])) is wrapper


@each_wrapper
def test_factory_is_readable_and_a_value(wrapper: Any) -> None:
    factory = wrapper(**KEYWORDS[wrapper])
    written = ", ".join(f"{k}={v!r}" for k, v in KEYWORDS[wrapper].items())
    assert repr(factory) == f"{wrapper.__name__}({written})"
    same = [
        wrapper(**KEYWORDS[wrapper]),
        copy.copy(factory),
        copy.deepcopy(factory),
        pickle.loads(pickle.dumps(factory)),
    ]
    for twin in same:
        assert twin == factory and hash(twin) == hash(factory)
        assert type(twin(fit(wrapper))) is wrapper
    assert factory != Scale(reward=1.0)
    assert factory != wrapper


def test_factories_of_other_keywords_differ() -> None:
    assert ResizeObservation(h=3) != ResizeObservation(h=4)
    assert ResizeObservation(h=3) != ResizeObservation()
    assert ResizeObservation(h=3, w=4) == ResizeObservation(w=4, h=3)
    assert len({ResizeObservation(h=3), ResizeObservation(h=3), ResizeObservation(w=3)}) == 2


def test_factory_with_an_unhashable_keyword_has_a_hash() -> None:
    factory = Scale(reward=1.0, unused=[1])
    assert hash(factory) == hash(Scale(reward=1.0, unused=[1]))
    assert factory != Scale(reward=1.0, unused=[2])


@each_wrapper
def test_misspelt_keyword_fails_where_it_is_written(wrapper: Any) -> None:
    with pytest.raises(TypeError, match=rf"{wrapper.__name__}: expected .* got .*hight=3"):
        wrapper(hight=3)
    with pytest.raises(TypeError, match="hight"):
        wrapper(PixelEnv(), hight=3)


def test_missing_keyword_fails_where_it_is_left_out() -> None:
    with pytest.raises(TypeError, match=r"Scale: .*'reward'"):
        Scale()
    assert Scale(reward=2.0)(VectorEnv()).factor == 2.0


@each_wrapper
@pytest.mark.parametrize("first", [3, None, "videos", PixelEnv, ClipReward, ClipReward()], ids=repr)
def test_first_argument_that_is_no_env_is_refused(wrapper: Any, first: Any) -> None:
    for arguments, keywords in [((first,), {}), ((), {"env": first})]:
        with pytest.raises(TypeError) as refusal:
            wrapper(*arguments, **keywords)
        said = str(refusal.value)
        assert said.startswith(f"{wrapper.__name__}: expected a JaxEnv")
        assert repr(first) in said and "keywords" in said


@each_wrapper
def test_a_batch_of_envs_is_refused_with_the_way_to_do_it(wrapper: Any) -> None:
    with pytest.raises(TypeError, match=rf"go inside: `VecEnv\({wrapper.__name__}\(env\), n\)`"):
        wrapper(VecEnv(PixelEnv(), 2))


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


def test_repr_does_not_take_a_hook_for_a_keyword() -> None:
    assert repr(Scale(VectorEnv(), reward=2.0)).startswith("Scale(VectorEnv(")


# Copies


def five_deep() -> Any:
    env = PixelEnv(VectorConfig(max_steps=3))
    env = RecordEpisodeStatistics(JitWrapper(GrayscaleObservation(env), pre_warm=False))
    return ClipReward(FrameStackObservation(env, n_stack=2))


def play(env: Any, steps: int = 2) -> Any:
    obs, state = env.reset(jax.random.key(0))
    rest: list[Any] = []
    for _ in range(steps):
        obs, state, *rest = env.step(state, jnp.int32(2))
    return obs, state, rest


@pytest.mark.parametrize(
    "twin_of",
    [
        pytest.param(copy.deepcopy, marks=pytest.mark.slow),
        lambda env: pickle.loads(pickle.dumps(env)),
    ],
)
def test_wrapped_env_survives_a_copy(twin_of: Any) -> None:
    env = five_deep()
    played = play(env)
    twin = twin_of(env)
    assert repr(twin) == repr(env)
    assert twin.unwrapped is not env.unwrapped and twin.config == env.config
    assert_trees_equal(play(twin), played)
    twin.config.max_steps = 99
    assert env.config.max_steps == 3


@each_wrapper
def test_each_wrapper_survives_pickle_and_deepcopy(wrapper: Any, tmp_path: Any) -> None:
    keywords = {**KEYWORDS[wrapper], **({"output_dir": tmp_path} if wrapper is RecordVideo else {})}
    env = wrapper(fit(wrapper), **keywords)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert type(twin) is wrapper and repr(twin) == repr(env)
        assert twin.env is not env.env
        assert twin.observation_space == env.observation_space


def test_copy_of_a_copied_stack_with_a_video_on_top(tmp_path: Any) -> None:
    env = RecordVideo(five_deep(), tmp_path)
    obs, state = env.reset(jax.random.key(0))
    assert env.recording
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert not twin.recording  # one writer per file
        assert repr(twin) == repr(env)
    assert env.recording
    env.close()
