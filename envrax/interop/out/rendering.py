"""Checks of whether an environment can render, and of `render_mode`."""

from typing import Any

from envrax.batched_env import BatchedEnv
from envrax.env import JaxEnv
from envrax.vec_env import VecEnv
from envrax.wrappers.record_video import implements_render


def can_render(env: Any) -> bool:
    """Whether a `JaxEnv` can be drawn, or the slots of a batch."""
    if isinstance(env, JaxEnv):
        return implements_render(env)
    if isinstance(env, VecEnv):
        return implements_render(env.env)
    if type(env).render_slot is BatchedEnv.render_slot:
        return False
    single = getattr(env, "unwrapped", None)
    # A simulator on the host knows whether it was built to draw.
    return getattr(env, "can_render", True) and (single is None or implements_render(single))


def require_render_mode(who: str, env: Any, render_mode: str | None) -> None:
    """
    Check a `render_mode` of Gymnasium.

    Raises
    ------
    ValueError
        If it is neither None nor "rgb_array".
    TypeError
        If the environment cannot draw.
    """
    if render_mode not in (None, "rgb_array"):
        raise ValueError(
            f'{who}: expected render_mode to be None or "rgb_array"; got {render_mode!r}.'
        )
    if render_mode and not can_render(env):
        raise TypeError(
            f"{who}: expected an environment that implements render; got {env}. Leave out "
            "`render_mode`."
        )
