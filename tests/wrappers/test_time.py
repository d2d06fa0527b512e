"""`TimeAwareObservation`: the time is what the limit counts, and reaches it at the end."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from envrax import (
    EnvConfig,
    FrameStackObservation,
    JitWrapper,
    MaxAndSkipObservation,
    RecordEpisodeStatistics,
    RepeatAction,
    StartStates,
    TimeAwareObservation,
    TimeLimit,
    VecEnv,
)
from envrax.testing import CountingEnv

KEY = jax.random.key(0)


def counting(max_steps: int) -> Any:
    return CountingEnv(EnvConfig(max_steps=max_steps))


def started_late(env: Any) -> Any:
    """Episodes begin in a state after two steps."""
    obs, state = env.reset(KEY)
    for _ in range(2):
        obs, state, *_ = env.step(state, 0)
    return StartStates(env, lambda rng: (obs, state))


STACKS: list[tuple[Any, list[float]]] = [
    (counting(4), [0, 0.25, 0.5, 0.75, 1]),
    (RepeatAction(counting(8), num_repeats=4), [0, 0.5, 1]),
    (FrameStackObservation(MaxAndSkipObservation(counting(8), skip=4)), [0, 0.5, 1]),
    (RepeatAction(TimeLimit(counting(99), max_steps=8), num_repeats=4), [0, 0.5, 1]),
    (RepeatAction(RecordEpisodeStatistics(counting(7)), num_repeats=4), [0, 4 / 7, 1]),
    (TimeLimit(RepeatAction(counting(99), num_repeats=4), max_steps=2), [0, 0.5, 1]),
    (TimeLimit(TimeLimit(counting(99), max_steps=9), max_steps=2), [0, 0.5, 1]),
    (started_late(counting(4)), [0.5, 0.75, 1]),
    (started_late(TimeLimit(counting(99), max_steps=4)), [0.5, 0.75, 1]),
    (TimeLimit(started_late(counting(99)), max_steps=2), [0, 0.5, 1]),
    (JitWrapper(counting(2), pre_warm=False), [0, 0.5, 1]),
]


@pytest.mark.parametrize(("stack", "times"), STACKS)
def test_time_reaches_1_at_the_limit(stack: Any, times: list[float]) -> None:
    env = TimeAwareObservation(stack, flatten=False, normalize_time=True)
    obs, state = env.reset(KEY)
    seen, step = [obs["time"]], jax.jit(env.step)
    while not state.done:
        obs, state, *_ = step(state, 0)
        seen.append(obs["time"])
    np.testing.assert_allclose(np.concatenate(seen), times, rtol=1e-6)


def test_the_number_of_steps_is_in_the_space() -> None:
    env = TimeAwareObservation(RepeatAction(counting(8), num_repeats=4), flatten=False)
    vec_env = VecEnv(env, 2, final_obs=True)
    obs, state = vec_env.reset(KEY)
    seen = [obs["time"]]
    for _ in range(2):
        _, state, *_, infos = vec_env.step(state, jnp.zeros(2, jnp.int32))
        seen.append(infos["final_obs"]["time"])
        assert vec_env.observation_space.contains(infos["final_obs"])
    assert np.asarray(seen)[:, 0, 0].tolist() == [0, 4, 8]
