"""The space of normalised observations."""

from typing import Any

import jax.numpy as jnp

from envrax.spaces import Box, Dict, Space, Tuple


def normal_space(space: Space, clip: float | None, env: Any) -> Space:
    """
    The same space, in which every `Box` is float32, from `-clip` to `clip` or without bounds.

    Raises
    ------
    TypeError
        If the space, the observations of `env` or an entry of them, has something else in it.
    """
    if isinstance(space, Dict):
        return Dict({name: normal_space(entry, clip, env) for name, entry in space.spaces.items()})
    if isinstance(space, Tuple):
        return Tuple([normal_space(entry, clip, env) for entry in space.spaces])
    if not isinstance(space, Box):
        raise TypeError(
            f"NormalizeObservation: expected observations in a Box, or in a Dict or Tuple of them; "
            f"got {space} of {env}. Normalise one entry with `key=`, or remove that entry with a "
            "wrapper inside the batch."
        )
    limit = jnp.inf if clip is None else clip
    return Box(-limit, limit, space.shape)
