"""Wrappers of a `BatchedEnv`, which handle all slots at once."""

from envrax.wrappers.vector.base import BatchedWrapper, BatchedWrapperState
from envrax.wrappers.vector.episode import BatchedEpisodeState, RecordEpisodeStatistics
from envrax.wrappers.vector.normalize import (
    NormalizedRewardState,
    NormalizedState,
    NormalizeObservation,
    NormalizeReward,
)
from envrax.wrappers.vector.record_video import RecordVideo
from envrax.wrappers.vector.statistics import RunningStatistics

__all__ = [
    "BatchedEpisodeState",
    "BatchedWrapper",
    "BatchedWrapperState",
    "NormalizeObservation",
    "NormalizeReward",
    "NormalizedRewardState",
    "NormalizedState",
    "RecordEpisodeStatistics",
    "RecordVideo",
    "RunningStatistics",
]
