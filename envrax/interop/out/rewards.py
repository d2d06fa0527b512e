"""The one check of rewards at every bridge to a trainer."""

from typing import Any

import jax
import jax.numpy as jnp


def require_reward_shape(who: str, rewards: Any, shape: tuple[int, ...]) -> None:
    """
    Raise a ValueError for rewards of another shape: `()` for one environment, `(n_slots,)` else.

    A trainer would broadcast such rewards: (N, 1) and values of (N,) become (N, N).
    """
    for x in jax.tree.leaves(rewards):
        if jnp.shape(x) != shape:
            raise ValueError(
                f"{who}: expected rewards of shape {shape}; got {jnp.shape(x)}. Leave out the "
                "wrapper that changes it, such as `ExpandDims`."
            )
