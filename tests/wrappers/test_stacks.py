"""Stacks of up to five wrappers, drawn at random, keep the contract whatever their order."""

from functools import cache
from typing import Any

import jax
import pytest
from fakes import CoinEnv, NestedEnv, PixelEnv, VectorEnv
from helpers import assert_trees_close, random_actions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envrax import (
    ClipReward,
    DelayObservation,
    EpisodeDiscount,
    ExpandDims,
    FlattenObservation,
    FrameStackObservation,
    GrayscaleObservation,
    JitWrapper,
    NanGuard,
    NormalizeObservation,
    RecordEpisodeStatistics,
    RepeatAction,
    ResizeObservation,
    StickyAction,
    TimeAwareObservation,
    TimeLimit,
    VecEnv,
    Wrapper,
)

FACTORIES = (
    Wrapper,
    JitWrapper(pre_warm=False),
    GrayscaleObservation,
    ResizeObservation(h=5, w=4),
    NormalizeObservation,
    FrameStackObservation(n_stack=2),
    ClipReward,
    NanGuard,
    ExpandDims,
    EpisodeDiscount,
    RecordEpisodeStatistics,
    TimeLimit(max_steps=3),
    TimeAwareObservation,
    FlattenObservation,
    DelayObservation(delay=1),
    RepeatAction(num_repeats=2),
    StickyAction(repeat_action_probability=0.5),
)
ENVS = (VectorEnv, PixelEnv, NestedEnv, CoinEnv)


def stacked(env: Any, factories: Any) -> Any:
    """The wrappers that fit; one that does not says what it expected and what it got."""
    for factory in factories:
        try:
            env = factory(env)
        except TypeError as error:
            assert "expected" in str(error) and "got" in str(error)
    return env


@cache
def rollouts(env_class: Any, factories: Any) -> Any:
    """Two slots over two episodes and more, in a `VecEnv`, and one by one without any."""
    env = stacked(env_class(), factories)
    batch = VecEnv(env, 2)
    actions = random_actions(env.action_space, (6, 2))
    first, state = batch.reset(jax.random.key(0))

    def step(state: Any, action: Any) -> Any:
        returned = batch.step(state, action)
        return returned[1], returned

    _, together = jax.lax.scan(step, state, actions)
    slots = [alone(env, i, jax.tree.map(lambda x, i=i: x[:, i], actions)) for i in range(2)]
    return env, first, together, slots


def alone(env: Any, slot: int, actions: Any) -> Any:
    obs, state = env.reset(jax.random.split(jax.random.key(0), 2)[slot])
    out, begun = [], obs
    for t in range(6):
        obs, state, *rest = env.step(state, jax.tree.map(lambda x, t=t: x[t], actions))
        if bool(state.done):
            obs, state = env.reset(jax.random.split(state.rng)[0])
        out.append((obs, state, *rest))
    return begun, out


def check(env_class: Any, factories: Any) -> None:
    env, first, together, slots = rollouts(env_class, factories)
    assert env.observation_space.batch(2).contains(first)
    for i, (begun, out) in enumerate(slots):
        assert_trees_close(jax.tree.map(lambda x, i=i: x[i], first), begun, rtol=1e-4, atol=1e-5)
        for t, returned in enumerate(out):
            got = jax.tree.map(lambda x, i=i, t=t: x[t, i], together)
            assert_trees_close(got, returned, rtol=1e-4, atol=1e-5)


stacks = st.lists(st.sampled_from(FACTORIES), max_size=5).map(tuple)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(ENVS), stacks)
def test_random_stacks(env_class: Any, factories: Any) -> None:
    check(env_class, factories)


@pytest.mark.slow
def test_a_stack_of_five() -> None:
    check(
        PixelEnv,
        (
            NanGuard,
            ExpandDims,
            GrayscaleObservation,
            RecordEpisodeStatistics,
            FrameStackObservation(n_stack=2),
        ),
    )
