# pyright: basic, reportMissingImports=false
"""Vector environments of Gymnasium: which can be reset slot by slot, and in which mode they are."""

import sys
from collections.abc import Iterator
from typing import Any

from envrax.interop.peer.library import require

require("gymnasium", "1.2", extra="gymnasium")

from gymnasium.vector import (  # noqa: E402
    AsyncVectorEnv,
    AutoresetMode,
    SyncVectorEnv,
    VectorEnv,
    VectorObservationWrapper,
    VectorWrapper,
)
from gymnasium.vector.utils import batch_space  # noqa: E402

WHO = "from_gymnasium_vec"
HOW = (
    'Build one that resets in the same step: `gymnasium.make_vec(id, n, vectorization_mode="sync", '
    'vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP})`.'
)


def _layers(env: Any) -> Iterator[VectorWrapper]:
    """The wrappers, the outermost first."""
    while isinstance(env, VectorWrapper):
        yield env
        env = env.env


def autoreset_mode(env: VectorEnv) -> AutoresetMode:
    base: Any = env.unwrapped
    declared = getattr(base, "autoreset_mode", None)
    # ALE writes its mode into the dict that all classes without metadata of their own share.
    if declared is None and base.metadata is not VectorEnv.metadata:
        declared = base.metadata.get("autoreset_mode")
    try:
        return AutoresetMode(declared)
    except ValueError:
        raise ValueError(
            f"{WHO}: expected a vector environment that declares its auto-reset in "
            f'`metadata["autoreset_mode"]`; got {declared!r} from {env}. Declare it there, or: '
            f"{HOW[0].lower()}{HOW[1:]}"
        ) from None


def has_known_reset(env: VectorEnv) -> bool:
    """Whether its partial reset is known to end a pending auto-reset as well."""
    known = [SyncVectorEnv, AsyncVectorEnv]
    if ale := sys.modules.get("ale_py.vector_env"):
        known.append(ale.AtariVectorEnv)
    return type(env.unwrapped).reset in [known_class.reset for known_class in known]


def require_partial_reset(env: VectorEnv, is_known: bool) -> None:
    base: Any = env.unwrapped
    next_step = autoreset_mode(env) is AutoresetMode.NEXT_STEP
    if next_step and not is_known:
        raise ValueError(
            f"{WHO}: expected a vector environment whose slots can be reset in the step that ends "
            f"their episode; got {env} in NEXT_STEP mode, which spends a step on a reset. {HOW}"
        )
    # Its worker forgets to end the pending auto-reset there.
    if next_step and is_known and not getattr(base, "shared_memory", True):
        raise ValueError(
            f"{WHO}: expected an AsyncVectorEnv with shared memory, or in SAME_STEP mode; got one "
            "with `shared_memory=False` in NEXT_STEP mode, whose partial reset Gymnasium resets "
            "once more. Build it in SAME_STEP mode."
        )
    for layer in _layers(env):
        if type(layer).reset not in (VectorWrapper.reset, VectorObservationWrapper.reset):
            advice = "Build the environment in SAME_STEP mode, or leave the wrapper out."
            if isinstance(layer, VectorObservationWrapper):
                advice = (
                    "Leave it out: Gymnasium allows no observation wrapper in SAME_STEP mode "
                    "either. Normalise in the trainer."
                )
            raise ValueError(
                f"{WHO}: expected wrappers without a `reset` of their own around an environment "
                f"that is reset slot by slot; got {type(layer).__name__}. {advice}"
            )


def require_fit(env: Any) -> None:
    if not isinstance(env, VectorEnv) or not hasattr(env, "single_action_space"):
        raise TypeError(
            f"{WHO}: expected a `gymnasium.vector.VectorEnv`, with spaces of a slot; got {env!r}. "
            "Build one with `gymnasium.make_vec(id, num_envs)`."
        )
    if hasattr(env.unwrapped, "all_env_ids"):
        raise TypeError(f"{WHO}: expected a vector environment; got a pool. Use `from_envpool`.")
    for which in ("observation", "action"):
        single, batch = (getattr(env, f"{k}{which}_space") for k in ("single_", ""))
        if batch_space(single, env.num_envs) != batch:
            raise ValueError(
                f"{WHO}: expected `{which}_space` to be {single} for each of {env.num_envs} slots; "
                f"got {batch}. Build all slots with the same space, and without `batch_size`."
            )
