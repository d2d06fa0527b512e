# pyright: basic
"""Images of the figures of matplotlib that libraries draw, without a window."""

import importlib
from typing import Any

import numpy as np

on_first_use = importlib.import_module
"""Drawing is slow to import."""


def image_of(figure: Any) -> np.ndarray:
    """The image of a figure, which is closed."""
    canvas = on_first_use("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    canvas.draw()
    on_first_use("matplotlib.pyplot").close(figure)
    return np.array(canvas.buffer_rgba())[..., :3]
