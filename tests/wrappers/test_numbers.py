"""Numbers at the edges: wide bounds, integers beyond float32, sums of rewards of any dtype."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinEnv, ScriptEnv
from helpers import jax_flag

from envrax import (
    AtariPreprocessing,
    Box,
    ClipAction,
    DiscretizeAction,
    ExpandDims,
    MaxAndSkipObservation,
    NormalizeObservation,
    RepeatAction,
    RescaleAction,
    RescaleObservation,
)
from envrax.testing import ImageEnv

KEY = jax.random.key(0)


class ActionBox(CoinEnv):
    """Takes actions in a given Box."""

    def __init__(self, space: Box) -> None:
        super().__init__()
        self.space = space

    @property
    def action_space(self) -> Box:
        return self.space


RESCALED = RescaleObservation(min_obs=-1.0, max_obs=1.0)


def scaled(wrapper: Any, space: Box, values: Any) -> np.ndarray[Any, Any]:
    """Each value, seen through the wrapper."""
    env = wrapper(ScriptEnv(space, np.zeros(space.shape, space.dtype)))
    return np.asarray(jax.jit(jax.vmap(env.observation))(values))


def assert_scaled(space: Box, values: Any) -> None:
    """Eleven values in equal steps, from the lower bound to the upper one."""
    part = np.arange(11) / 10
    envs = [
        wrap(ScriptEnv(space, np.zeros((), space.dtype)))
        for wrap in (NormalizeObservation, RESCALED)
    ]
    seen = jax.jit(jax.vmap(lambda x: [env.observation(x) for env in envs]))(values)
    np.testing.assert_allclose(seen[0], part, rtol=1e-6)
    np.testing.assert_allclose(seen[1], 2 * part - 1, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("x64", [False, True])
def test_bounds_of_float64_beyond_float32(x64: bool) -> None:
    space = Box(-1e300, 1e300, (), np.float64)
    with jax_flag("jax_enable_x64", x64):
        edge = 1e300 if x64 else np.finfo(np.float32).max
        values = jnp.asarray(np.array([-edge, -edge / 2, 0, edge]))
        np.testing.assert_allclose(scaled(RESCALED, space, values), [-1, -0.5, 0, 1], atol=1e-6)
        env = DiscretizeAction(ActionBox(space), bins=4)
        choices = np.uint32([0, 1, 2, 3, 4_000_000_000])
        centres = np.asarray(jax.jit(jax.vmap(env.action))(choices))
        np.testing.assert_allclose(centres / edge, [-0.75, -0.25, 0.25, 0.75, 0.75], rtol=1e-6)


@pytest.mark.parametrize(
    ("low", "dtype"),
    [
        (10**9, np.int32),
        (-(2**31), np.int32),
        (2**31 - 11, np.int32),
        (2**32 - 11, np.uint32),
        (117, np.int8),
    ],
)
def test_integers_far_from_zero(low: int, dtype: Any) -> None:
    space = Box(low, low + 10, (), dtype)
    assert_scaled(space, low + np.arange(11).astype(dtype))


def test_integers_outside_the_bounds_are_not_clipped() -> None:
    space = Box(10**9, 10**9 + 10, (), np.int32)
    values = np.int32([-(2**31), 10**9 - 5, 10**9 + 20, 2**31 - 1])
    exact = (values.astype(np.float64) - 10**9) / 10
    np.testing.assert_allclose(scaled(NormalizeObservation, space, values), exact, rtol=1e-6)


@pytest.mark.parametrize(
    ("low", "dtype"), [(10**9, np.float64), (10**18, np.int64), (-(2**63), np.int64)]
)
def test_64_bits_far_from_zero(low: int, dtype: Any) -> None:
    step = 1 if dtype is np.int64 else 1024  # a float64 holds 53 bits
    with jax_flag("jax_enable_x64", True):
        space = Box(low, low + 10 * step, (), dtype)
        assert_scaled(space, dtype(low) + step * np.arange(11).astype(dtype))


def test_actions_of_float64_far_from_zero() -> None:
    with jax_flag("jax_enable_x64", True):
        env = RescaleAction(ActionBox(Box(1e9, 1e9 + 10, (), np.float64)), -1.0, 1.0)
        taken = np.asarray(jax.jit(env.action)(jnp.float32(0.5)))
        assert taken.dtype == jnp.float64
        np.testing.assert_allclose(taken - 1e9, 7.5, rtol=1e-6)


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0, 4, np.uint8),
        (-128, 127, np.int8),
        (-(2**31), 2**31 - 1, np.int32),
        (0, 2**32 - 1, np.uint32),
        (-5, 2**24 + 1, np.int32),  # which float32 rounds to another end
        (7, 7, np.int16),
    ],
)
def test_actions_of_integers_are_the_nearest_and_end_at_the_bounds(
    low: int, high: int, dtype: Any
) -> None:
    space = Box(low, high, (2,), dtype)
    env = RescaleAction(ActionBox(space), -1.0, 1.0)
    assert env.action_space == Box(-1.0, 1.0, (2,))
    given = np.linspace(-1, 1, 65, dtype=np.float32)
    pairs = np.stack([[-1.5, *given], [2.0, *given[::-1]]], 1).astype(np.float32)
    beyond, *taken = np.asarray(jax.jit(jax.vmap(env.action))(pairs))
    taken = np.stack(taken)
    assert taken.dtype == space.dtype
    np.testing.assert_array_equal(taken[:, 0], taken[::-1, 1])
    exact = low + (given.astype(object) + 1) / 2 * (high - low)
    spread = max(0.5, (high - low) * 2.0**-23)  # of the nearest integer, or of a float32
    assert all(abs(a - b) <= spread for a, b in zip(taken[:, 0].tolist(), exact, strict=True))
    assert taken[0].tolist() == beyond.tolist() == [low, high]


def test_actions_of_integers_may_have_other_bounds_for_each_element() -> None:
    space = Box([0, -3], [10, 3], (2,), np.int32)
    env = RescaleAction(ActionBox(space), [0.0, -1.0], [1.0, 1.0])
    taken = jax.jit(jax.vmap(env.action))(np.float32([[0, 1], [0.26, 0.2], [1, -1]]))
    assert taken.tolist() == [[0, 3], [3, 1], [10, -3]]


class SameReward(ImageEnv):
    """The same reward in every step, of any dtype."""

    value: Any = np.float32(1)

    def advance(self, state: Any, action: Any) -> Any:
        state, _, terminated = super().advance(state, action)
        return state, jnp.asarray(self.value), terminated


@pytest.mark.parametrize(
    ("repeat", "value", "times"),
    [
        (RepeatAction(num_repeats=4), np.int8(100), 4),
        (RepeatAction(num_repeats=4), np.float16(6e4), 4),
        (RepeatAction(num_repeats=1), np.int8(100), 1),
        (MaxAndSkipObservation(skip=4), np.uint8(100), 4),
        (AtariPreprocessing(noop_max=0, frame_skip=4, screen_size=8), np.bool_(True), 4),
    ],
)
def test_rewards_of_repeated_actions_are_summed_in_float32(
    repeat: Any, value: Any, times: int
) -> None:
    env = SameReward()
    env.value = value
    envs = repeat(env), repeat(ExpandDims(env))
    rewards = jax.jit(lambda rng: [env.step(env.reset(rng)[1], 0)[2] for env in envs])(KEY)
    for reward, shape in zip(rewards, ((), (1,)), strict=True):
        assert (reward.dtype, reward.shape) == (jnp.float32, shape)
        assert np.all(np.asarray(reward) == times * float(value))


@pytest.mark.parametrize(
    "space",
    [
        Box(-1e300, 1e300, (2,), np.float64),
        Box(-(2**40), 2**40, (2,), np.int64),
        Box(-np.inf, np.inf, (2,), np.int32),
        Box(0, 2**64 - 1, (2,), np.uint64),
    ],
)
def test_actions_are_clipped_to_what_jax_can_hold(space: Box) -> None:
    env = ClipAction(ActionBox(space))
    action = env.action_space.sample(KEY)
    taken = env.action(action)
    assert taken.dtype == action.dtype
    np.testing.assert_array_equal(taken, action)
