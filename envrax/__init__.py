"""The environment API standard of JAX reinforcement learning."""

from envrax import spaces, wrappers
from envrax._jax.cache import DEFAULT_CACHE_DIR
from envrax.batched_env import BatchedEnv
from envrax.env import EnvConfig, EnvState, JaxEnv
from envrax.error import MissingPackageError
from envrax.evaluation import Evaluation, evaluate
from envrax.make import make, make_multi, make_multi_vec, make_vec
from envrax.multi_env import MultiEnv
from envrax.multi_vec_env import MultiVecEnv
from envrax.registry import (
    EnvSpec,
    available_suites,
    get_spec,
    register,
    register_suite,
    registered_names,
    unregister,
)
from envrax.rollouts import Rollout, Transition, rollout, start
from envrax.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from envrax.suite import EnvSet, EnvSuite, load_suite
from envrax.vec_env import VecEnv
from envrax.wrappers import (
    ActionWrapper,
    ClipReward,
    EpisodeDiscount,
    EpisodeStatisticsState,
    ExpandDims,
    FrameStackObservation,
    FrameStackState,
    GrayscaleObservation,
    JitWrapper,
    NanGuard,
    NormalizeObservation,
    ObservationWrapper,
    RecordEpisodeStatistics,
    RecordVideo,
    ResizeObservation,
    RewardWrapper,
    StatefulWrapper,
    Wrapper,
    save_video,
    tile_frames,
)

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_CACHE_DIR",
    "ActionWrapper",
    "BatchedEnv",
    "Box",
    "ClipReward",
    "Dict",
    "Discrete",
    "EnvConfig",
    "EnvSet",
    "EnvSpec",
    "EnvState",
    "EnvSuite",
    "EpisodeDiscount",
    "EpisodeStatisticsState",
    "Evaluation",
    "ExpandDims",
    "FrameStackObservation",
    "FrameStackState",
    "GrayscaleObservation",
    "JaxEnv",
    "JitWrapper",
    "MissingPackageError",
    "MultiBinary",
    "MultiDiscrete",
    "MultiEnv",
    "MultiVecEnv",
    "NanGuard",
    "NormalizeObservation",
    "ObservationWrapper",
    "RecordEpisodeStatistics",
    "RecordVideo",
    "ResizeObservation",
    "RewardWrapper",
    "Rollout",
    "Space",
    "StatefulWrapper",
    "Transition",
    "Tuple",
    "VecEnv",
    "Wrapper",
    "__version__",
    "available_suites",
    "evaluate",
    "get_spec",
    "load_suite",
    "make",
    "make_multi",
    "make_multi_vec",
    "make_vec",
    "register",
    "register_suite",
    "registered_names",
    "rollout",
    "save_video",
    "spaces",
    "start",
    "tile_frames",
    "unregister",
    "wrappers",
]
