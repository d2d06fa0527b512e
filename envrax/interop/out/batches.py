"""The checks of a batch at every bridge to a trainer that takes batches."""

from typing import Any

from envrax.batched_env import BatchedEnv
from envrax.spaces import Dict, Space, Tuple


def require_batch(who: str, batched_env: Any) -> None:
    """Raise a TypeError for anything but a `BatchedEnv`."""
    if not isinstance(batched_env, BatchedEnv):
        raise TypeError(
            f"{who}: expected a batched environment, such as a VecEnv; got {batched_env!r}. "
            "Pass `make_vec(id, n)` or `VecEnv(env, n)`."
        )


def require_flat(who: str, space: Space) -> None:
    """Raise a TypeError for observations that are neither an array nor one dict of arrays."""
    children = list(space.spaces.values()) if isinstance(space, Dict) else [space]
    if any(isinstance(child, Dict | Tuple) for child in children):
        raise TypeError(
            f"{who}: expected observations that its trainer takes, an array or one dict of arrays; "
            f"got {space!r}. Flatten them with a wrapper."
        )
