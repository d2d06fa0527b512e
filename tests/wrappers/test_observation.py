"""The observation wrappers: what they compute, to the number, and what they refuse to wrap."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import ScriptEnv, VectorConfig, VectorEnv
from PIL import Image

from envrax import (
    Box,
    FrameStackObservation,
    GrayscaleObservation,
    NormalizeObservation,
    ResizeObservation,
)

Obs = np.ndarray[Any, Any]


def image_space(*shape: int) -> Box:
    return Box(0, 255, shape, jnp.uint8)


def observe(wrapper: Any, space: Any, obs: Any, tolerance: int = 0) -> Obs:
    """The wrapped observation: the same alone, batched, at reset and after a step."""
    env = wrapper(ScriptEnv(space, jnp.asarray(obs)))

    @jax.jit
    def seen(obs: jax.Array, batch: jax.Array) -> Any:
        first, state = env.reset(jax.random.key(0))
        others = env.observation(obs), env.step(state, jnp.int32(0))[0]
        return first, others, jax.vmap(env.observation)(batch)

    first, others, batched = jax.tree.map(np.asarray, seen(obs, np.stack([obs] * 3)))
    for other in (*others, *batched):
        assert other.dtype == first.dtype
        if tolerance:
            np.testing.assert_allclose(other.astype(int), first.astype(int), rtol=0, atol=tolerance)
        else:
            np.testing.assert_array_equal(other, first)
    assert first.shape == env.observation_space.shape
    assert first.dtype == env.observation_space.dtype
    assert env.observation_space.contains(first)
    return first


# Grayscale


def test_grey_is_the_weighted_sum_to_the_nearest() -> None:
    steps = [*range(0, 256, 17), 1, 2, 127, 128, 254]
    greys = [(v, v, v) for v in range(256)]
    colours = np.array([*greys, *itertools.product(steps, repeat=3)], np.uint8)[None]
    grey = observe(GrayscaleObservation, image_space(*colours.shape), colours)
    exact = colours.astype(np.float64) @ [0.299, 0.587, 0.114]
    assert grey.dtype == np.uint8 and grey.shape == colours.shape[:2]
    assert np.abs(grey - exact).max() <= 0.5 + 1e-9
    assert grey[0, :256].tolist() == [*range(256)]


# Resize

SIZES = [(1, 1), (5, 4), (13, 31), (84, 84)]


@pytest.mark.parametrize("shape", [(7, 10, 3), (210, 160, 3)], ids=str)
def test_constant_images_stay_constant(shape: tuple[int, ...]) -> None:
    sizes = SIZES if shape[0] < 99 else [(84, 84)]
    envs = [ResizeObservation(ScriptEnv(image_space(*shape)), h=h, w=w) for h, w in sizes]
    resize = jax.jit(lambda image: [env.observation(image) for env in envs])
    for value in (0, 1, 127, 128, 254, 255):
        images = resize(np.full(shape, value, np.uint8))
        for (h, w), env, image in zip(sizes, envs, images, strict=True):
            assert env.observation_space == image_space(h, w, *shape[2:])
            assert image.shape == (h, w, *shape[2:]) and image.dtype == jnp.uint8
            assert (np.asarray(image) == value).all(), (h, w, value)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((12, 10), (1, 1)),
        ((12, 10), (13, 31)),
        ((9, 11, 3), (5, 4)),
        pytest.param((9, 11, 3), (84, 84), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_resize_agrees_with_pillow(shape: tuple[int, ...], size: tuple[int, int]) -> None:
    image = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    # XLA may round a weighted average differently in a batch: a pixel at x.5 differs by 1 then.
    resize = ResizeObservation(h=size[0], w=size[1])
    resized = observe(resize, image_space(*shape), image, tolerance=1)
    pillow = np.asarray(Image.fromarray(image).resize(size[::-1], Image.Resampling.BILINEAR))
    # Pillow rounds twice, once per axis.
    assert np.abs(resized.astype(int) - pillow.astype(int)).max() <= 1


def test_resize_interpolates_and_rounds() -> None:
    image = np.array([[0, 101]], np.uint8)
    wide = observe(ResizeObservation(h=1, w=4), image_space(1, 2), image)
    assert wide.tolist() == [[0, 25, 76, 101]]  # 25.25 and 75.75
    image = np.random.default_rng(1).integers(0, 256, (6, 5, 3)).astype(np.uint8)
    same = observe(ResizeObservation(h=6, w=5), image_space(6, 5, 3), image)
    np.testing.assert_array_equal(same, image)


# Normalize


def test_bytes_are_divided_by_255() -> None:
    values = np.arange(256, dtype=np.uint8)
    seen = observe(NormalizeObservation, image_space(256), values)
    wanted = values.astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(seen, wanted)
    normalize = NormalizeObservation(ScriptEnv(image_space(256))).observation
    batches = [np.stack([values] * width) for width in (1, 7, 32)]
    lowered = jax.jit(lambda xs: [jax.vmap(normalize)(x) for x in xs]).lower(batches)
    for level in ("0", "3"):
        for seen in lowered.compile({"xla_backend_optimization_level": level})(batches):
            np.testing.assert_array_equal(seen, np.stack([wanted] * len(seen)))
    narrow = NormalizeObservation(ScriptEnv(Box(0, 10, (256,), jnp.uint8)))
    np.testing.assert_array_equal(narrow.observation(values), wanted)


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (-2.0, 30.0, jnp.float16),
        (-3e38, 3e38, jnp.float32),
        (-5, 7, jnp.int8),
        (-(2**31), 2**31 - 1, jnp.int32),
        (False, True, jnp.bool_),
        pytest.param(1e-30, 2e-30, jnp.float32, marks=pytest.mark.slow),
        pytest.param(0, 2**32 - 1, jnp.uint32, marks=pytest.mark.slow),
    ],
)
def test_bounded_boxes_are_scaled_from_their_bounds(low: Any, high: Any, dtype: Any) -> None:
    exact = np.float64(low) + np.array([0, 0.37, 1]) * (np.float64(high) - np.float64(low))
    obs = exact.astype(dtype)
    wanted = (obs.astype(np.float64) - exact[0]) / (exact[2] - exact[0])
    with jax.debug_nans(True):
        seen = observe(NormalizeObservation, Box(low, high, (3,), dtype), obs)
    assert seen.dtype == np.float32 and seen[0] == 0 and seen[2] == 1
    np.testing.assert_allclose(seen, wanted, rtol=2e-5, atol=1e-7)


def test_each_element_has_bounds_of_its_own_and_equal_ones_give_zero() -> None:
    space = Box([-1.0, 0.0, 5.0, -3e38], [1.0, 10.0, 5.0, -3e38], (4,))
    with jax.debug_nans(True):
        seen = observe(NormalizeObservation, space, np.float32([0.5, 2.5, 5.0, -3e38]))
    np.testing.assert_allclose(seen, [0.75, 0.25, 0.0, 0.0], rtol=1e-6)


def test_bounds_become_exactly_0_and_1() -> None:
    high = np.arange(1, 200, dtype=np.float32)  # x * (1 / x) is not 1 for some of them
    box = Box(-1.0, high, (199,))
    for obs, wanted in ((high, 1.0), (np.full(199, -1, np.float32), 0.0)):
        assert (observe(NormalizeObservation, box, obs) == wanted).all()
    below = observe(NormalizeObservation, box, np.nextafter(high, np.float32(0)))
    assert (below <= 1).all()


# Frame stack


def test_stack_is_filled_at_reset_and_oldest_is_first() -> None:
    env = FrameStackObservation(VectorEnv(VectorConfig(max_steps=9)), n_stack=3)
    first, state = VectorEnv().reset(jax.random.key(0))
    stack, stacked = env.reset(jax.random.key(0))
    np.testing.assert_array_equal(stack, np.stack([first] * 3, -1))
    history = [first] * 3
    for action in (0, 2, 2, 1):
        obs, state, *_ = VectorEnv().step(state, jnp.int32(action))
        stack, stacked, *_ = env.step(stacked, jnp.int32(action))
        history = [*history[1:], obs]
        np.testing.assert_allclose(stack, np.stack(history, -1), rtol=1e-6)
        np.testing.assert_array_equal(stacked.obs_stack, stack)
        assert env.observation_space.contains(stack)


@pytest.mark.parametrize(
    "space",
    [image_space(4, 5, 3), Box(-1.0, 1.0, ()), Box([-1.0, -jnp.inf], [1.0, 2.0], (2,))],
    ids=str,
)
def test_any_box_gains_a_last_axis(space: Box) -> None:
    obs = np.ones(space.shape, space.dtype)
    env = FrameStackObservation(ScriptEnv(space, obs), n_stack=3)
    low, high = (
        np.stack([np.broadcast_to(x, space.shape)] * 3, -1) for x in (space.low, space.high)
    )
    assert env.observation_space == Box(low, high, (*space.shape, 3), space.dtype)
    first, state = env.reset(jax.random.key(0))
    for stack in (first, env.step(state, 0)[0]):
        assert stack.dtype == space.dtype
        np.testing.assert_array_equal(stack, np.stack([obs] * 3, -1))
