# pyright: basic
"""Images of jumanji's environments, as jumanji draws them, on the host."""

import copy
import functools
from typing import Any

import jax
import numpy as np

GRAPHS = ("GraphColoring", "MMST")
"""Classes that draw in the unit square, for which matplotlib finds wrong limits."""

_VIEWERS = ("_viewer", "_env_viewer", "viewer")  # attributes that hold the viewer


def draw(env: Any, inner: Any) -> np.ndarray | None:
    """The image of a state; None if the environment has no viewer."""
    import matplotlib.pyplot as plt

    name = next((x for x in _VIEWERS if x in vars(env)), None)
    if name is None:
        return None
    # Copies: the viewer would open a window, and `Snake.render` forgets to return the image.
    env = copy.copy(env)
    viewer: Any = copy.copy(getattr(env, name))
    setattr(env, name, viewer)
    is_graph = type(env).__name__ in GRAPHS
    frames: list[np.ndarray] = []

    def display(figure: Any) -> None:
        if is_graph:
            figure.axes[0].set(xlim=(0, 1), ylim=(0, 1))
        frames.append(np.array(viewer._display_rgb_array(figure))[..., :3])

    viewer._display = display
    viewer._get_fig_ax = functools.partial(viewer._get_fig_ax, show=False)
    with plt.ioff(), jax.numpy_dtype_promotion("standard"):
        env.render(jax.device_get(inner) if is_graph else inner)
        viewer.close()
    return frames[-1]
