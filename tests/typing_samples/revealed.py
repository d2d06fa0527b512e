"""What a checker knows. The comment behind a `reveal_type` is the type that it has to reveal."""

from typing import reveal_type

import jax
from user import BallConfig, BallEnv, BallState, Count, Inverted, Scaled, Turned

from envrax import (
    ClipReward,
    EpisodeDiscount,
    ExpandDims,
    FlattenObservation,
    FrameStackObservation,
    GrayscaleObservation,
    JitWrapper,
    NormalizeObservation,
    RecordEpisodeStatistics,
    RecordVideo,
    RepeatAction,
    ResizeObservation,
    StickyAction,
    TimeLimit,
    VecEnv,
)

rng = jax.random.key(0)

# An env
env = BallEnv()
obs, state = env.reset(rng)
reveal_type(env.config)  # BallConfig
reveal_type(env.config.speed)  # float
reveal_type(env.config.max_steps)  # int
reveal_type(env.config.replace(speed=1.0))  # BallConfig
reveal_type(env.observation_space)  # Box
reveal_type(env.action_space)  # Discrete
reveal_type(state)  # BallState
reveal_type(state.pos)  # Array
reveal_type(state.replace(pos=rng))  # BallState
reveal_type(env.step(state, rng)[1])  # BallState
reveal_type(BallState(rng=rng, step=rng, done=rng, pos=rng))  # BallState
reveal_type(BallConfig(max_steps=3))  # BallConfig

# A wrapper around it
grey = GrayscaleObservation(env)
reveal_type(grey)  # GrayscaleObservation[Discrete, BallState, BallConfig]
reveal_type(grey.config)  # BallConfig
reveal_type(grey.action_space)  # Discrete
reveal_type(grey.observation_space)  # Box
reveal_type(grey.reset(rng)[1])  # BallState
resized = ResizeObservation(grey, h=3)
reveal_type(resized)  # ResizeObservation[Discrete, BallState, BallConfig]
stacked = FrameStackObservation(resized, n_stack=2)
reveal_type(stacked)  # FrameStackObservation[Discrete, BallState, BallConfig]
reveal_type(stacked.reset(rng)[1])  # FrameStackState[BallState]
reveal_type(stacked.reset(rng)[1].env_state.pos)  # Array
reveal_type(NormalizeObservation(env).reset(rng)[1])  # BallState
counted = RecordEpisodeStatistics(stacked)
reveal_type(counted.reset(rng)[1])  # EpisodeStatisticsState[FrameStackState[BallState]]
reveal_type(counted.config)  # BallConfig
reveal_type(counted.observation_space)  # Box
reveal_type(ClipReward(env))  # ClipReward[Box, Discrete, BallState, BallConfig]
reveal_type(JitWrapper(env))  # JitWrapper[Box, Discrete, BallState, BallConfig]
reveal_type(RecordVideo(env))  # RecordVideo[Box, Discrete, BallState, BallConfig]
reveal_type(ExpandDims(env))  # ExpandDims[Box, Discrete, BallState, BallConfig]
reveal_type(EpisodeDiscount(env))  # EpisodeDiscount[Box, Discrete, BallState, BallConfig]

limited = TimeLimit(env, max_steps=3)
reveal_type(limited.observation_space)  # Box
reveal_type(limited.reset(rng)[1])  # TimeState[BallState]
reveal_type(StickyAction(env, 0.5).reset(rng)[1])  # StickyActionState[BallState]
reveal_type(RepeatAction(env, 2))  # RepeatAction[Box, Discrete, BallState, BallConfig]
reveal_type(FlattenObservation(env).observation_space)  # Box

# Deferred
reveal_type(TimeLimit(max_steps=3)(env).reset(rng)[1])  # TimeState[BallState]
reveal_type(FlattenObservation()(env))  # FlattenObservation[Discrete, BallState, BallConfig]
reveal_type(ResizeObservation(h=3)(env))  # ResizeObservation[Discrete, BallState, BallConfig]
reveal_type(ResizeObservation(h=3)(env).config)  # BallConfig
reveal_type(ResizeObservation(h=3)(env).observation_space)  # Box
reveal_type(GrayscaleObservation()(env))  # GrayscaleObservation[Discrete, BallState, BallConfig]
reveal_type(NormalizeObservation()(env))  # NormalizeObservation[Discrete, BallState, BallConfig]
reveal_type(FrameStackObservation(n_stack=3)(env).reset(rng)[1])  # FrameStackState[BallState]
reveal_type(RecordEpisodeStatistics()(env).reset(rng)[1])  # EpisodeStatisticsState[BallState]
reveal_type(ClipReward()(env))  # ClipReward[Box, Discrete, BallState, BallConfig]
reveal_type(ExpandDims()(env))  # ExpandDims[Box, Discrete, BallState, BallConfig]
reveal_type(EpisodeDiscount()(env))  # EpisodeDiscount[Box, Discrete, BallState, BallConfig]
reveal_type(JitWrapper(pre_warm=False)(env))  # JitWrapper[Box, Discrete, BallState, BallConfig]
reveal_type(RecordVideo(fps=3)(env))  # RecordVideo[Box, Discrete, BallState, BallConfig]
reveal_type(FrameStackObservation(n_stack=2)(ResizeObservation(h=3)(env)).config)  # BallConfig

# Those of the user
reveal_type(Inverted(env))  # Inverted[Discrete, BallState, BallConfig]
reveal_type(Inverted()(env))  # Inverted[Discrete, BallState, BallConfig]
reveal_type(Turned()(env))  # Turned[Box, BallState, BallConfig]
reveal_type(Scaled(env, factor=3.0).factor)  # float
reveal_type(Scaled(factor=3.0)(env))  # Scaled[Box, Discrete, BallState, BallConfig]
reveal_type(Count(env))  # Count[Box, Discrete, BallState, BallConfig]
reveal_type(Count()(env))  # Count[Box, Discrete, BallState, BallConfig]
reveal_type(Count(stacked).reset(rng)[1])  # CountState[FrameStackState[BallState]]
reveal_type(Count()(env).reset(rng)[1].count)  # Array

# Many of them
vec_env = VecEnv(counted, num_envs=4)
reveal_type(vec_env.config)  # BallConfig
reveal_type(vec_env.single_action_space)  # Discrete
reveal_type(vec_env.reset(rng)[1])  # EpisodeStatisticsState[FrameStackState[BallState]]
reveal_type(vec_env.slot_state(vec_env.reset(rng)[1], 2).env_state.env_state)  # BallState
