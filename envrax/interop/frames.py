# pyright: basic, reportMissingImports=false
"""Images of MuJoCo models, drawn on the host."""

import importlib
import os
import sys
from typing import Any

import numpy as np

HEIGHT, WIDTH = 240, 320
_DISPLAYS = {"DISPLAY", "WAYLAND_DISPLAY"}


def draw(who: str, model: Any, **fields: Any) -> np.ndarray:
    """
    Draw a model as MuJoCo's renderer shows it, from its free camera.

    Parameters
    ----------
    who : str
        The environment, for the message.
    model : mujoco.MjModel
        The model.
    **fields
        Fields of `mujoco.MjData`: at least `qpos` and `qvel`.

    Returns
    -------
    numpy.ndarray
        uint8 (240, 320, 3).

    Raises
    ------
    NotImplementedError
        If there is no OpenGL to draw with.
    """
    mujoco: Any = importlib.import_module("mujoco")
    advice = (
        "Without a display, set the environment variable MUJOCO_GL to egl, or to osmesa, before "
        "Python starts."
    )
    expected = f"{who}.render: expected MuJoCo to open an OpenGL context; got"
    backend = getattr(mujoco, "GLContext", type(None)).__module__
    # Without a display MuJoCo's window backend stops the process at the second try.
    if backend == "mujoco.glfw" and sys.platform == "linux" and not _DISPLAYS & os.environ.keys():
        raise NotImplementedError(f"{expected} no display. {advice}")
    data = mujoco.MjData(model)
    for name, value in fields.items():
        getattr(data, name)[:] = np.asarray(value)
    mujoco.mj_forward(model, data)
    try:
        renderer = mujoco.Renderer(model, HEIGHT, WIDTH)
    except Exception as error:  # each backend has errors of its own
        got = f"{type(error).__name__}: {error}"
        raise NotImplementedError(f"{expected} {got}. {advice}") from error
    with renderer:
        renderer.update_scene(data)
        return renderer.render()
