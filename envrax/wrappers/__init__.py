"""Wrappers, and the base classes to write your own."""

from envrax.video.frames import save_video, tile_frames
from envrax.wrappers import vector as vector
from envrax.wrappers.action import ClipAction, DiscretizeAction, FlattenAction, RescaleAction
from envrax.wrappers.atari import AtariPreprocessing
from envrax.wrappers.base import ActionWrapper, ObservationWrapper, RewardWrapper, Wrapper
from envrax.wrappers.deferred import WrapperFactory as WrapperFactory
from envrax.wrappers.delay import DelayObservation
from envrax.wrappers.dict_observation import FilterObservation
from envrax.wrappers.episode import (
    EpisodeDiscount,
    EpisodeStatisticsState,
    ExpandDims,
    RecordEpisodeStatistics,
)
from envrax.wrappers.episodic_life import EpisodicLife
from envrax.wrappers.episodic_life import LifeState as LifeState
from envrax.wrappers.frame_stack import FrameStackObservation, FrameStackState
from envrax.wrappers.jit import JitWrapper
from envrax.wrappers.nan_guard import NanGuard
from envrax.wrappers.observation import (
    GrayscaleObservation,
    NormalizeObservation,
    ResizeObservation,
)
from envrax.wrappers.pad import PadAction, PadObservation, pad_spaces
from envrax.wrappers.randomization import DomainRandomization
from envrax.wrappers.randomization import RandomizedState as RandomizedState
from envrax.wrappers.record_video import RecordVideo
from envrax.wrappers.repeat import MaxAndSkipObservation, RepeatAction, StickyAction
from envrax.wrappers.reshape import (
    DtypeObservation,
    FlattenObservation,
    RescaleObservation,
    ReshapeObservation,
)
from envrax.wrappers.start_states import StartStates
from envrax.wrappers.stateful import StatefulWrapper
from envrax.wrappers.stateful import WrapperState as WrapperState
from envrax.wrappers.time import TimeAwareObservation, TimeLimit
from envrax.wrappers.transform import (
    ClipReward,
    TransformAction,
    TransformObservation,
    TransformReward,
)

# `envrax` exports these names too.
__all__ = [
    "ActionWrapper",
    "AtariPreprocessing",
    "ClipAction",
    "ClipReward",
    "DelayObservation",
    "DiscretizeAction",
    "DomainRandomization",
    "DtypeObservation",
    "EpisodeDiscount",
    "EpisodeStatisticsState",
    "EpisodicLife",
    "ExpandDims",
    "FilterObservation",
    "FlattenAction",
    "FlattenObservation",
    "FrameStackObservation",
    "FrameStackState",
    "GrayscaleObservation",
    "JitWrapper",
    "MaxAndSkipObservation",
    "NanGuard",
    "NormalizeObservation",
    "ObservationWrapper",
    "PadAction",
    "PadObservation",
    "RecordEpisodeStatistics",
    "RecordVideo",
    "RepeatAction",
    "RescaleAction",
    "RescaleObservation",
    "ReshapeObservation",
    "ResizeObservation",
    "RewardWrapper",
    "StartStates",
    "StatefulWrapper",
    "StickyAction",
    "TimeAwareObservation",
    "TimeLimit",
    "TransformAction",
    "TransformObservation",
    "TransformReward",
    "Wrapper",
    "pad_spaces",
    "save_video",
    "tile_frames",
]
