"""The environment API standard of JAX reinforcement learning."""

import importlib
from typing import TYPE_CHECKING, Any

from envrax import spaces, wrappers
from envrax._jax.cache import DEFAULT_CACHE_DIR
from envrax.batched_env import BatchedEnv
from envrax.env import EnvConfig, EnvState, JaxEnv, with_config
from envrax.episodic_env import EpisodicEnv
from envrax.error import MissingPackageError
from envrax.exporting import register_for_export
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
from envrax.rollouts import (
    Episode,
    Evaluation,
    FrameBuffer,
    GridEvaluation,
    Rollout,
    Transition,
    episodes,
    evaluate,
    evaluate_grid,
    rollout,
    start,
)
from envrax.saving import load, save
from envrax.sharding import shard
from envrax.spaces import *  # noqa: F403
from envrax.suite import EnvSet, EnvSuite, load_suite
from envrax.vec_env import VecEnv
from envrax.wrappers import *  # noqa: F403

if TYPE_CHECKING:
    from envrax.interop.protocol.wrapping import recognise as recognise
    from envrax.interop.protocol.wrapping import wrap as wrap

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_CACHE_DIR",
    "BatchedEnv",
    "EnvConfig",
    "EnvSet",
    "EnvSpec",
    "EnvState",
    "EnvSuite",
    "Episode",
    "EpisodicEnv",
    "Evaluation",
    "FrameBuffer",
    "GridEvaluation",
    "JaxEnv",
    "MissingPackageError",
    "MultiEnv",
    "MultiVecEnv",
    "Rollout",
    "Transition",
    "VecEnv",
    "__version__",
    "available_suites",
    "episodes",
    "evaluate",
    "evaluate_grid",
    "get_spec",
    "load",
    "load_suite",
    "make",
    "make_multi",
    "make_multi_vec",
    "make_vec",
    "recognise",
    "register",
    "register_for_export",
    "register_suite",
    "registered_names",
    "rollout",
    "save",
    "shard",
    "spaces",
    "start",
    "unregister",
    "with_config",
    "wrap",
    "wrappers",
]
__all__ += spaces.__all__
__all__ += wrappers.__all__


def __getattr__(name: str) -> Any:
    if name not in ("recognise", "wrap"):  # they import the adapters
        homes = {"check": "testing", "report": "testing", "from": "interop", "to": "interop"}
        home = homes.get(name.partition("_")[0])
        hint = f". Look in `envrax.{home}`." if home else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    return getattr(importlib.import_module("envrax.interop.protocol.wrapping"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
