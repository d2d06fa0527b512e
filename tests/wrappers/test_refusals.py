"""What wrappers refuse when they are built; error_messages.md has whole messages."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from fakes import CoinEnv, NestedEnv, PixelEnv, ScriptEnv, VectorEnv

import envrax
from envrax import Box, Dict, Discrete, MultiBinary, Space, Tuple

IMAGE = Box(0, 255, (4, 6, 3), jnp.uint8)


@dataclass(frozen=True)
class Share(Space):
    """Three numbers that sum to 1."""

    shape: Any = (3,)
    dtype: Any = jnp.float32

    def sample(self, rng: jax.Array, mask: Any = None) -> jax.Array:
        return jax.nn.softmax(jax.random.normal(rng, (3,)))

    def contains(self, x: Any) -> Any:
        return jnp.abs(jnp.sum(x) - 1) < 1e-5

    def batch(self, n: int) -> Any:
        return Box(0.0, 1.0, (n, 3))


LARGE = Dict({f"field {i}": IMAGE for i in range(40)})


def refused(name: str, env: Any, **keywords: Any) -> Callable[[], Any]:
    """The wrapper of that name around an environment, or around one of that space."""
    inner = env() if isinstance(env, type) else ScriptEnv(env, obs=())
    return lambda: getattr(envrax, name)(**keywords)(inner)


BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (refused("GrayscaleObservation", Discrete(3)), TypeError, "Box"),
    (refused("GrayscaleObservation", NestedEnv), TypeError, "Box"),
    (refused("GrayscaleObservation", Box(0, 255, (4, 4), jnp.uint8)), TypeError, "axes"),
    (refused("GrayscaleObservation", Box(0, 255, (4, 4, 1), jnp.uint8)), TypeError, "last axis"),
    (refused("ResizeObservation", Box(0.0, 1.0, (4, 4))), TypeError, "uint8"),
    (refused("ResizeObservation", Box(0, 255, (4,), jnp.uint8)), TypeError, "axes"),
    (refused("ResizeObservation", PixelEnv, w=0), ValueError, r"\bw\b"),
    (refused("ResizeObservation", Box(0, 255, (3, 12, 10), jnp.uint8)), TypeError, "first axis"),
    (refused("ResizeObservation", Box(0, 255, (12, 84, 84), jnp.uint8)), TypeError, "first axis"),
    (refused("NormalizeObservation", Tuple((IMAGE, IMAGE))), TypeError, "Box"),
    (
        refused("NormalizeObservation", Box([0.0, -jnp.inf], 1.0, (2,))),
        TypeError,
        "bounded.*vector",
    ),
    (refused("FrameStackObservation", Discrete(3)), TypeError, "Box"),
    (refused("FrameStackObservation", Dict(a=IMAGE)), TypeError, "Put `FlattenObservation`"),
    (refused("FrameStackObservation", MultiBinary((4, 2))), TypeError, "Put `DtypeObservation`"),
    (refused("FrameStackObservation", LARGE), TypeError, r"got Dict.{190,210}\.\.\.\. Put"),
    (refused("NormalizeObservation", PixelEnv, key="image"), TypeError, "Dict"),
    (refused("NormalizeObservation", NestedEnv, key="imag"), ValueError, "image"),
    (refused("NormalizeObservation", Dict(a=Dict(b=IMAGE)), key="a"), TypeError, "Box"),
    (refused("TimeLimit", VectorEnv, max_steps=0), ValueError, "max_steps"),
    (refused("TimeAwareObservation", Dict(time=IMAGE)), ValueError, "'time'"),
    (refused("StartStates", VectorEnv, sample=[0]), TypeError, "sample to be a function"),
    (refused("ReshapeObservation", NestedEnv, shape=4), TypeError, "Box"),
    (refused("ReshapeObservation", VectorEnv, shape=(2, 2)), ValueError, "3 elements"),
    (refused("DtypeObservation", NestedEnv, dtype="int8"), TypeError, "Discrete"),
    (refused("DtypeObservation", PixelEnv, dtype="int8"), ValueError, "dtype"),
    (refused("DtypeObservation", CoinEnv, dtype="uint8"), ValueError, "float"),
    (refused("FilterObservation", VectorEnv, filter_keys=["a"]), TypeError, "Tuple"),
    (refused("FilterObservation", NestedEnv, filter_keys="image"), ValueError, "among"),
    (refused("FilterObservation", NestedEnv, filter_keys=["imag"]), ValueError, "image"),
    (refused("FilterObservation", NestedEnv, filter_keys=[]), ValueError, "at least 1"),
    (
        refused("RescaleObservation", VectorEnv, min_obs=0, max_obs=1),
        ValueError,
        "infinite.*Transform",
    ),
    (refused("RescaleObservation", PixelEnv, min_obs=2, max_obs=1), ValueError, "bounds"),
    (refused("DelayObservation", VectorEnv, delay=-1), ValueError, "delay"),
    (refused("DelayObservation", Dict(x=Share(), y=IMAGE), delay=1), TypeError, "contain zeros"),
    (refused("MaxAndSkipObservation", PixelEnv, skip=1), ValueError, "skip"),
    (refused("MaxAndSkipObservation", NestedEnv), TypeError, "Box"),
    (refused("RepeatAction", VectorEnv, num_repeats=0), ValueError, "num_repeats"),
    (refused("ClipAction", VectorEnv), TypeError, "Box"),
    (refused("RescaleAction", VectorEnv, min_action=-1, max_action=1), TypeError, "Box"),
    (refused("RescaleAction", CoinEnv, min_action=1, max_action=1), ValueError, "min_action"),
    (refused("DiscretizeAction", VectorEnv, bins=3), TypeError, "Box"),
    (refused("DiscretizeAction", CoinEnv, bins=(3, 0)), ValueError, "bins"),
    (refused("DiscretizeAction", CoinEnv, bins=(3,)), ValueError, "2 bins"),
    (refused("DiscretizeAction", CoinEnv, bins=1 << 20), ValueError, r"\bn\b"),
    (refused("StickyAction", VectorEnv, repeat_action_probability=1.0), ValueError, "probability"),
    (refused("TransformObservation", VectorEnv, func=jnp.sum), TypeError, "func"),
    (refused("TransformAction", CoinEnv, func=jnp.sum), TypeError, "func"),
    (refused("AtariPreprocessing", VectorEnv), TypeError, "uint8"),
    (refused("AtariPreprocessing", PixelEnv, screen_size=(1, 2, 3)), ValueError, "height"),
]


@pytest.mark.parametrize(("make", "error", "noun"), BAD)
def test_what_does_not_fit_is_refused(
    make: Callable[[], Any], error: type[Exception], noun: str
) -> None:
    with pytest.raises(error, match=noun):
        make()


@pytest.mark.parametrize(
    "wrap", [envrax.AtariPreprocessing(noop_max=0, terminal_on_life_loss=True), envrax.EpisodicLife]
)
def test_an_environment_that_tells_no_lives_is_refused_at_the_first_step(wrap: Any) -> None:
    env = wrap(PixelEnv())
    state = jax.eval_shape(env.reset, jax.random.key(0))[1]
    with pytest.raises(ValueError, match="lives"):
        jax.eval_shape(env.step, state, jnp.int32(0))


def test_a_discount_of_a_discount_is_refused() -> None:
    with pytest.raises(TypeError, match="bool"):
        envrax.EpisodeDiscount(envrax.ClipReward(envrax.EpisodeDiscount(VectorEnv())))


def test_every_callable_may_transform() -> None:
    """JAX refers weakly to the functions that it is given, and not all allow that."""
    env = envrax.TransformObservation(
        NestedEnv(), operator.itemgetter("image"), NestedEnv().observation_space["image"]
    )
    assert env.reset(jax.random.key(0))[0].shape == env.observation_space.shape
