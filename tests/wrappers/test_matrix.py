"""
Every wrapper on every kind of env, in every way to call it, against a loop over compiled calls.

A new wrapper is one row of `ROWS`. By default the rows that are stacks of wrappers are called in
one way each. With `-m slow` these are called in all ways, and each other row in one, on one of its
envs; they take turns. The other envs of each row are the exhaustive rest.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import ALL, LivesEnv, PixelEnv
from helpers import assert_trees_close, jax_flag, plain, random_actions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wrapper_rows import ROWS, in_turn

from envrax import (
    ClipReward,
    FrameStackObservation,
    GrayscaleObservation,
    MaxAndSkipObservation,
    NormalizeObservation,
    RecordEpisodeStatistics,
    ResizeObservation,
    VecEnv,
)
from envrax.classic import CartPole
from envrax.env import carries_over
from envrax.wrappers.atari import LifeLoss

SLOTS, STEPS = 2, 7  # over the limit of five steps, so that new episodes begin


# How a rollout with auto-reset is written, four times: of each slot the first observation, and of
# each step all that it returns.


def by_hand(env: Any, reset: Any, step: Any, rng: jax.Array, actions: list[Any]) -> Any:
    first, state = reset(rng)
    out = []
    for action in actions:
        obs, state, *rest = step(state, action)
        if bool(state.done):
            obs, state = next_episode(env, reset, state)
        out.append((obs, state, *rest))
    return first, stacked(out)


def next_episode(env: Any, reset: Any, state: Any) -> Any:
    if carries_over(env):
        return env.reset_after(state)
    return reset(jax.random.split(state.rng)[0])


def with_select(env: Any, state: Any, action: Any) -> Any:
    obs, state, *rest = env.step(state, action)
    fresh = next_episode(env, env.reset, state)
    merged = jax.tree.map(lambda a, b: jnp.where(state.done, a, b), fresh, (obs, state))
    return *merged, *rest


def stacked(out: list[Any], axis: int = 0) -> Any:
    """As NumPy arrays, which compiles nothing."""
    return jax.tree.map(lambda *leaves: np.stack([plain(x) for x in leaves], axis), *out)


def eager(env: Any, keys: Any, actions: Any) -> Any:
    slots = [by_hand(env, env.reset, env.step, keys[i], at(actions, i)) for i in range(SLOTS)]
    return stacked(slots)


def jit(env: Any, keys: Any, actions: Any) -> Any:
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    return stacked([by_hand(env, reset, step, keys[i], at(actions, i)) for i in range(SLOTS)])


def vmap(env: Any, keys: Any, actions: Any) -> Any:
    first, state = jax.jit(jax.vmap(env.reset))(keys)
    step = jax.jit(jax.vmap(lambda state, action: with_select(env, state, action)))
    return first, over_time(step, state, actions)


def scan(env: Any, keys: Any, actions: Any) -> Any:
    def body(state: Any, action: Any) -> Any:
        out = with_select(env, state, action)
        return out[1], out

    def run(rng: Any, actions: Any) -> Any:
        first, state = env.reset(rng)
        return first, jax.lax.scan(body, state, actions)[1]

    # One slot after the other: what is compiled is the scan of a single env.
    return jax.lax.map(lambda slot: run(*slot), (keys, actions))


def vec_env(env: Any, keys: Any, actions: Any) -> Any:
    batch = VecEnv(env, SLOTS)
    first, state = batch.reset(jax.random.key(0))
    return first, over_time(batch.step, state, actions)


def over_time(step: Any, state: Any, actions: Any) -> Any:
    out = []
    for t in range(STEPS):
        out.append(step(state, jax.tree.map(lambda x, t=t: x[:, t], actions)))
        state = out[-1][1]
    return stacked(out, axis=1)


def at(actions: Any, slot: int) -> list[Any]:
    return [jax.tree.map(lambda x, t=t: x[slot, t], actions) for t in range(STEPS)]


@cache
def rolled(row: str, env_class: Any) -> Any:
    """The wrapped env, what it was called with, and what the loop made of it."""
    env = ROWS[row][0](env_class())
    keys = jax.random.split(jax.random.key(0), SLOTS)
    actions = jax.tree.map(np.asarray, random_actions(env.action_space, (SLOTS, STEPS)))
    return env, keys, actions, jit(env, keys, actions)


MODES = (eager, vmap, scan, vec_env)
# The stacks hold all other wrappers.
QUICK = {"images": scan, "episodes": vec_env, "gymnasium": vec_env}


def cases() -> Iterator[Any]:
    """Row, env and mode. The modes take turns, and all meet the first env of a stack."""
    rows = [(name, envs) for name, (_, envs) in ROWS.items() if name != "RecordVideo"]
    for i, (row, envs) in enumerate(rows):
        for j, env_class in enumerate(envs):
            stack = row in QUICK and j == 0
            for k, mode in enumerate(MODES):
                if not stack and k != (i + j) % len(MODES):
                    continue
                tier = [pytest.mark.slow if stack or j == i % len(envs) else pytest.mark.exhaustive]
                yield pytest.param(
                    *(row, env_class, mode),
                    marks=[] if stack and mode is QUICK[row] else tier,
                    id=f"{row}-{env_class.__name__}-{mode.__name__}",
                )


@pytest.mark.parametrize(("row", "env_class", "mode"), [*cases()])
def test_every_way_to_call_it_agrees(row: str, env_class: Any, mode: Any) -> None:
    env, keys, actions, expected = rolled(row, env_class)
    first, (obs, state, reward, done, _) = expected
    space = env.observation_space.batch(SLOTS)
    assert space.contains(first) and all(
        space.contains(jax.tree.map(lambda x, t=t: x[:, t], obs)) for t in range(STEPS)
    )
    assert reward.dtype == np.float32 and not state.done.any()  # a new episode has begun
    ended = state.step == 0
    assert ended.any()
    flags = ended if done.dtype == np.bool_ else 1 - ended
    np.testing.assert_array_equal(done.reshape(SLOTS, STEPS), flags)
    got = jax.tree.map(plain, mode(env, keys, actions))
    assert_trees_close(got, expected, rtol=1e-4, atol=1e-5)


PIECES = (
    *("Wrapper", "JitWrapper", "GrayscaleObservation", "ResizeObservation", "NormalizeObservation"),
    *("FrameStackObservation", "ClipReward", "NanGuard", "ExpandDims", "EpisodeDiscount"),
    *("RecordEpisodeStatistics", "TimeLimit", "TimeAwareObservation", "FlattenObservation"),
    *("DelayObservation", "RepeatAction", "StickyAction"),
)


@pytest.mark.slow
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(ALL), st.lists(st.sampled_from(PIECES), max_size=5))
def test_random_stacks(env_class: Any, rows: list[str]) -> None:
    """Whatever the order of the wrappers, a `VecEnv` does what a loop does."""
    env = env_class()
    for row in rows:
        try:
            env = ROWS[row][0](env)
        except TypeError as error:  # it does not fit
            assert "expected" in str(error) and "got" in str(error)
    keys = jax.random.split(jax.random.key(0), SLOTS)
    actions = jax.tree.map(np.asarray, random_actions(env.action_space, (SLOTS, STEPS)))
    got = jax.tree.map(plain, vec_env(env, keys, actions))
    assert_trees_close(got, jit(env, keys, actions), rtol=1e-4, atol=1e-5)
    assert env.observation_space.batch(SLOTS).contains(got[0])


# The settings that users of JAX turn on

FLAGS = {
    "jax_enable_x64": True,
    "jax_disable_jit": True,
    "jax_debug_nans": True,
    "jax_check_tracer_leaks": True,
    "jax_numpy_dtype_promotion": "standard",  # `strict` is how all tests run
    "jax_numpy_rank_promotion": "raise",
}


def cart_pole() -> Any:
    env = RecordEpisodeStatistics(CartPole())
    return FrameStackObservation(ClipReward(env), n_stack=2)


def picture() -> Any:
    # Twice the size: all weights are quarters, so that no tie is left to the rounding of a float.
    env = ResizeObservation(GrayscaleObservation(PixelEnv()), h=24, w=20)
    return NormalizeObservation(FrameStackObservation(env, n_stack=2))


@cache
def stack_rollout(stack: Any, flag: str | None) -> Any:
    """Reset, and enough steps for a pole to fall."""
    env = stack()
    batch = VecEnv(env, 3)
    obs, state = batch.reset(jax.random.PRNGKey(0))
    seen = []
    for _ in range(12):
        obs, state, *rest = batch.step(state, jnp.ones(3, jnp.int32))
        seen.append((obs, state.step, *rest))
    return jax.tree.map(np.asarray, stacked(seen)), state.step.dtype


def with_flags() -> Iterator[Any]:
    """Each setting with one of the two stacks, which take turns."""
    for i, stack in enumerate((cart_pole, picture)):
        for j, flag in enumerate(FLAGS):
            tier = pytest.mark.slow if (i + j) % 2 else pytest.mark.exhaustive
            yield pytest.param(stack, flag, marks=tier)


@pytest.mark.parametrize(("stack", "flag"), [*with_flags()])
def test_settings_change_nothing(stack: Any, flag: str) -> None:
    expected, _ = stack_rollout(stack, None)
    with jax_flag(flag, FLAGS[flag]):
        got, step_dtype = stack_rollout(stack, flag)
    obs, step, reward, done, info = got
    assert step_dtype == step.dtype == np.int32 and reward.dtype == np.float32
    assert obs.dtype == np.float32 and done.dtype == np.bool_
    assert done.any()
    assert_trees_close(got, expected, rtol=1e-4, atol=1e-5)


# The buffer of `StartStates` is the user's: JAX counts an index into an array of keys as their use.
KEYED = {name: row for name, row in ROWS.items() if name not in ("RecordVideo", "StartStates")}
KEYED["lives"] = in_turn(MaxAndSkipObservation(skip=2), LifeLoss), [LivesEnv]
DRAWS = ("AtariPreprocessing", "DomainRandomization", "EpisodicLife", "episodes", "gymnasium")


def keyed() -> Iterator[Any]:
    """The rows; those that draw nothing are in the exhaustive tier."""
    for name in KEYED:
        tier = pytest.mark.slow if name in DRAWS else pytest.mark.exhaustive
        yield pytest.param(name, marks=[] if name == "lives" else tier)


@pytest.mark.parametrize("row", [*keyed()])
def test_no_key_is_used_twice(row: str) -> None:
    wrap, (env_class, *_) = KEYED[row]
    with jax.debug_key_reuse(True):
        env = VecEnv(wrap(env_class()), SLOTS)
        obs, state = env.reset(jax.random.key(0))
        for i in range(STEPS):
            obs, state, *_ = env.step(state, env.action_space.sample(jax.random.key(i)))
    jax.block_until_ready(obs)
