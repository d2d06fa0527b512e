"""Deferred construction, copies of wrapped envs, and what the wrapper classes look like."""

import copy
import pickle
from typing import Any

import jax
import pytest
from fakes import PixelEnv, VectorConfig, VectorEnv
from helpers import assert_trees_equal
from wrapper_rows import ROWS

from envrax import (
    AtariPreprocessing,
    ClipReward,
    FrameStackObservation,
    GrayscaleObservation,
    JitWrapper,
    RecordEpisodeStatistics,
    RecordVideo,
    ResizeObservation,
    RewardWrapper,
    Wrapper,
)
from envrax.wrappers import WrapperFactory

# A factory as users write it, and an environment that it fits.
FACTORIES: dict[str, tuple[Any, Any]] = {
    name: (wrap if isinstance(wrap, WrapperFactory) else wrap(), kinds[0])
    for name, (wrap, kinds) in ROWS.items()
    if isinstance(wrap, type | WrapperFactory)
}
FACTORIES["RecordVideo"] = RecordVideo(fps=10), PixelEnv  # its row has a function without a name
FACTORIES["AtariPreprocessing"] = AtariPreprocessing(noop_max=2, screen_size=(5, 6)), PixelEnv
each_wrapper = pytest.mark.parametrize("name", FACTORIES)


class Scale(RewardWrapper[Any, Any, Any, Any]):
    """A wrapper as users write it: a required keyword, called like one of the hooks."""

    def __init__(self, env: Any, reward: float, unused: Any = None) -> None:
        super().__init__(env)
        self.factor = reward

    def reward(self, reward: jax.Array) -> jax.Array:
        return reward * self.factor


@each_wrapper
def test_factory_waits_for_an_env_and_is_a_value(name: str) -> None:
    factory, env_class = FACTORIES[name]
    wrapper, keywords, env = factory.wrapper, factory.kwargs, env_class()
    once, again = factory(env), factory(env)
    assert type(once) is type(again) is type(wrapper(env=env, **keywords)) is wrapper
    assert once is not again and once.unwrapped is again.unwrapped is env
    for key, value in keywords.items():
        assert getattr(once, key, value) == value
    written = ", ".join(f"{k}={v!r}" for k, v in keywords.items())
    assert repr(factory) == f"{name}({written})"
    for twin in (wrapper(**keywords), copy.deepcopy(factory), pickle.loads(pickle.dumps(factory))):
        assert twin == factory and hash(twin) == hash(factory)
        assert type(twin(env_class())) is wrapper
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
def test_each_wrapper_survives_pickle_and_deepcopy(name: str) -> None:
    factory, env_class = FACTORIES[name]
    env = factory(env_class())
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert type(twin) is type(env) and repr(twin) == repr(env)
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
