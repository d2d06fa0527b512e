"""The wrappers of reward and done, and the episode statistics in every place of a stack."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinConfig, CoinEnv, PixelEnv, ScriptEnv, VectorEnv
from helpers import assert_trees_equal, jax_flag, plain, slow_but
from wrapper_rows import ROWS

from envrax import (
    AtariPreprocessing,
    ClipReward,
    EnvState,
    EpisodeDiscount,
    ExpandDims,
    FrameStackObservation,
    JitWrapper,
    NanGuard,
    RecordEpisodeStatistics,
    StartStates,
    TimeLimit,
)

KEY = jax.random.key(0)
ZERO = jnp.int32(0)
REWARDS = (2.0, -0.5, 0.0, -1.5)


def rollout(env: Any, steps: int, action: Any = ZERO) -> list[Any]:
    """State, reward, done and info of each step."""

    @jax.jit
    def run(rng: jax.Array) -> Any:
        def step(state: Any, _: None) -> Any:
            _, state, *rest = env.step(state, action)
            return state, (state, *rest)

        return jax.lax.scan(step, env.reset(rng)[1], length=steps)[1]

    out = jax.tree.map(plain, run(KEY))
    return [jax.tree.map(lambda x, t=t: x[t], out) for t in range(steps)]


# Reward


@pytest.mark.parametrize("compiled", [False, True])
def test_clip_keeps_the_sign(compiled: bool) -> None:
    clip = ClipReward(VectorEnv()).reward
    clip = jax.jit(clip) if compiled else clip
    rewards = [-jnp.inf, -3.5, -1e-30, -0.0, 0.0, 1e-30, 0.25, 7, jnp.inf]
    for given in (jnp.float32, jnp.float16, np.float64):
        for reward in rewards:
            clipped = clip(given(reward))
            assert clipped.dtype == jnp.float32
            assert float(clipped) == np.sign(given(reward))
    for reward in (-4, 0, 9, jnp.int32(-4), np.uint8(200), True, 2.5):
        clipped = clip(reward)
        assert clipped.dtype == jnp.float32 and float(clipped) == np.sign(int(reward))


# Done


def test_expand_dims_adds_a_trailing_axis_to_reward_and_done() -> None:
    env = ExpandDims(ScriptEnv(rewards=REWARDS))
    for step, (state, reward, done, _) in enumerate(rollout(env, 4), 1):
        assert reward.shape == done.shape == (1,)
        assert reward.dtype == jnp.float32 and done.dtype == jnp.bool_
        assert reward[0] == REWARDS[step - 1] and done[0] == state.done == (step == 4)
        assert state.done.shape == () and state.done.dtype == jnp.bool_


@pytest.mark.parametrize("wrap", [ExpandDims, RecordEpisodeStatistics])
def test_discount_is_one_until_the_end_and_then_zero(wrap: Any) -> None:
    shape = (1,) if wrap is ExpandDims else ()
    inner = ScriptEnv(rewards=REWARDS)
    for env in (EpisodeDiscount(wrap(inner)), wrap(EpisodeDiscount(inner))):
        for step, (state, _, discount, _) in enumerate(rollout(env, 4), 1):
            assert discount.dtype == jnp.float32 and discount.shape == shape
            assert float(discount.sum()) == (0.0 if step == 4 else 1.0)
            assert state.done.shape == () and state.done.dtype == jnp.bool_
            assert bool(state.done) == (step == 4)


# Statistics


def episodes(infos: list[Any]) -> list[tuple[float, int]]:
    return [(float(info["episode"]["r"]), int(info["episode"]["l"])) for info in infos]


def test_statistics_come_on_the_last_step_alone() -> None:
    seen = rollout(RecordEpisodeStatistics(ScriptEnv(rewards=REWARDS)), 4)
    assert episodes([info for *_, info in seen]) == [(0, 0)] * 3 + [(0, 4)]  # a return of zero
    assert [float(state.episode_return) for state, *_ in seen] == [2, 1.5, 1.5, 0]
    assert [int(state.episode_length) for state, *_ in seen] == [1, 2, 3, 4]
    for _, _, _, info in seen:
        assert set(info) == {"terminated", "truncated", "episode"}


@pytest.mark.parametrize(
    "wrapper",
    slow_but(
        ClipReward,
        values=[
            ClipReward,
            FrameStackObservation,
            EpisodeDiscount,
            ExpandDims,
            JitWrapper(pre_warm=False),
            RecordEpisodeStatistics,
        ],
    ),
    ids=lambda wrapper: getattr(wrapper, "wrapper", wrapper).__name__,
)
def test_statistics_are_right_above_and_beneath(wrapper: Any) -> None:
    inner = ScriptEnv(rewards=(2.0, 0.25, -1.5))
    clipped = 1.0 if wrapper is ClipReward else 0.75
    for env, expected in [
        (RecordEpisodeStatistics(wrapper(inner)), clipped),
        (wrapper(RecordEpisodeStatistics(inner)), 0.75),
        (RecordEpisodeStatistics(wrapper(RecordEpisodeStatistics(inner))), clipped),
    ]:
        infos = [info for *_, info in rollout(env, 3)]
        assert episodes(infos) == [(0, 0), (0, 0), (expected, 3)]
        assert infos[2]["episode"]["r"].shape == infos[2]["episode"]["l"].shape == ()


@pytest.mark.parametrize(
    "wrapper",
    [
        AtariPreprocessing(noop_max=9),
        AtariPreprocessing(noop_max=0, terminal_on_life_loss=True),
        NanGuard,
        StartStates(sample=lambda rng: None),
        TimeLimit,
    ],
    ids=["no-ops", "life loss", "NanGuard", "StartStates", "TimeLimit"],
)
def test_what_begins_or_ends_episodes_itself_wants_statistics_around_it(wrapper: Any) -> None:
    name = getattr(wrapper, "wrapper", wrapper).__name__
    with pytest.raises(TypeError, match=f"{name}: expected RecordEpisodeStatistics outside"):
        wrapper(ClipReward(RecordEpisodeStatistics(PixelEnv())))
    RecordEpisodeStatistics(wrapper(PixelEnv()))


TAKE_STEPS = ("StickyAction", "AtariPreprocessing")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in TAKE_STEPS else pytest.mark.exhaustive)
        for name in ROWS
        if name != "RecordVideo"
    ],
)
def test_statistics_inside_count_no_step_of_a_reset(name: str) -> None:
    wrapper, kinds = ROWS[name]
    try:
        env = wrapper(RecordEpisodeStatistics(kinds[0]()))
        _, state = jax.jit(env.reset)(KEY)
    except TypeError as refusal:
        assert "expected RecordEpisodeStatistics outside" in str(refusal)
        return
    while not hasattr(state, "episode_length"):
        state = state.env_state
    assert (int(state.episode_length), float(state.episode_return)) == (0, 0.0)


@pytest.mark.parametrize("x64", [False, True])
def test_statistics_keep_their_dtypes(x64: bool) -> None:
    class Wide(ScriptEnv):
        """Rewards as wide as they come."""

        def step(self, state: EnvState, action: Any) -> tuple[Any, ...]:
            obs, state, reward, done, info = super().step(state, action)
            return obs, state, reward.astype(float), done, info

    with jax_flag("jax_enable_x64", x64):
        env = RecordEpisodeStatistics(ExpandDims(Wide()))
        for state, _, _, info in rollout(env, 2):
            told = info["episode"]["r"], info["episode"]["l"]
            for stats in (told, (state.episode_return, state.episode_length)):
                assert [x.dtype for x in stats] == [jnp.float32, jnp.int32]
            assert state.step.dtype == jnp.int32


def test_what_is_written_to_the_state_on_top_reaches_the_environment() -> None:
    """A key for other luck, a step count close to the limit."""

    def world(state: Any) -> Any:
        return state.world if hasattr(state, "world") else world(state.env_state)

    bare = CoinEnv(CoinConfig(end_rate=0.0, max_steps=1000))
    env = RecordEpisodeStatistics(FrameStackObservation(JitWrapper(bare)))
    other, action = jax.random.key(7), jnp.ones(2, jnp.float32)

    def stepped(env: Any) -> Any:
        _, state = env.reset(KEY)
        return env.step(state.replace(rng=other, step=jnp.int32(40)), action)[1]

    alone, state = jax.jit(lambda: (stepped(bare), stepped(env)))()
    assert int(state.step) == int(alone.step) == 41
    assert_trees_equal((state.rng, world(state)), (alone.rng, alone.world))
