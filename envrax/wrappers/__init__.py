"""Wrappers: environments around environments, and the base classes to write your own."""

from envrax.wrappers import vector
from envrax.wrappers.base import ActionWrapper, ObservationWrapper, RewardWrapper, Wrapper
from envrax.wrappers.deferred import WrapperFactory
from envrax.wrappers.episode import (
    EpisodeDiscount,
    EpisodeStatisticsState,
    ExpandDims,
    RecordEpisodeStatistics,
)
from envrax.wrappers.guard import NanGuard
from envrax.wrappers.jit import JitWrapper
from envrax.wrappers.observation import (
    FrameStackObservation,
    FrameStackState,
    GrayscaleObservation,
    NormalizeObservation,
    ResizeObservation,
)
from envrax.wrappers.pictures import save_video, tile_frames
from envrax.wrappers.reward import ClipReward
from envrax.wrappers.stateful import StatefulWrapper, WrapperState
from envrax.wrappers.video import RecordVideo

__all__ = [
    "ActionWrapper",
    "ClipReward",
    "EpisodeDiscount",
    "EpisodeStatisticsState",
    "ExpandDims",
    "FrameStackObservation",
    "FrameStackState",
    "GrayscaleObservation",
    "JitWrapper",
    "NanGuard",
    "NormalizeObservation",
    "ObservationWrapper",
    "RecordEpisodeStatistics",
    "RecordVideo",
    "ResizeObservation",
    "RewardWrapper",
    "StatefulWrapper",
    "Wrapper",
    "WrapperFactory",
    "WrapperState",
    "save_video",
    "tile_frames",
    "vector",
]
