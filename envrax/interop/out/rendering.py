"""Checks of whether an environment can render, and of `render_mode`."""

from typing import Any

from envrax._checks.marks import adds
from envrax.env import JaxEnv
from envrax.wrappers.record_video import implements_render


def can_render(env: Any) -> bool:
    """Whether a `JaxEnv` can be drawn, or the slots of a batch."""
    if isinstance(env, JaxEnv):
        return implements_render(env)
    return bool(getattr(env, "can_render", adds(env.render_slot)))


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
            f'{who}: expected render_mode to be None or "rgb_array"; got {render_mode!r}. '
            "`gymnasium.wrappers` have `HumanRendering` to watch one environment, and "
            "`RenderCollection` for a list of frames."
        )
    if render_mode and not can_render(env):
        raise TypeError(
            f"{who}: expected an environment that implements render; got {env}. Leave out "
            "`render_mode`."
        )
