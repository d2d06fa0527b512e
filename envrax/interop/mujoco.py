# pyright: basic, reportMissingImports=false
"""`MujocoEnv`: the base of the adapters of brax and MuJoCo Playground."""

import importlib
import os
import sys
from typing import Any

import jax
import numpy as np

from envrax.interop.base import PeerEnv
from envrax.interop.convert import box, nested, unbounded
from envrax.interop.forms import as_dicts
from envrax.interop.records import Advanced, Begun
from envrax.spaces import Space

HEIGHT, WIDTH = 240, 320
_DISPLAYS = {"DISPLAY", "WAYLAND_DISPLAY"}


class MujocoEnv(PeerEnv):
    """
    An environment whose `reset` and `step` are those of `brax.envs.Env`.

    Observations are unbounded, actions between -1 and 1; `info` has `State.metrics`.
    """

    def spaces(self) -> tuple[Space, Space]:
        acted = jax.ShapeDtypeStruct((self.peer.action_size,), np.float32)
        return nested(unbounded, self.observed), box(-1, 1, acted)

    def begin(self, params: Any, rng: jax.Array) -> Begun:
        inner = self.peer.reset(rng)
        return Begun(as_dicts(inner.obs), inner)

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> Advanced:
        inner = self.peer.step(inner, action)
        info = dict(inner.metrics)
        return Advanced(as_dicts(inner.obs), inner, inner.reward, inner.done, info=info)

    def _draw(self, model: Any, **fields: Any) -> np.ndarray:
        """
        Draw a model as MuJoCo's renderer shows it, from its free camera.

        Parameters
        ----------
        model : mujoco.MjModel
            The model.
        **fields
            Fields of `mujoco.MjData`: at least `qpos` and `qvel`.

        Raises
        ------
        NotImplementedError
            If there is no OpenGL to draw with.
        """
        mujoco: Any = importlib.import_module("mujoco")
        advice = (
            "Without a display, set the environment variable MUJOCO_GL to egl, or to osmesa, "
            "before Python starts."
        )
        expected = f"{self._who}.render: expected MuJoCo to open an OpenGL context; got"
        glfw = getattr(mujoco, "GLContext", type(None)).__module__ == "mujoco.glfw"
        # Without a display MuJoCo's window backend stops the process at the second try.
        if glfw and sys.platform == "linux" and not _DISPLAYS & os.environ.keys():
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
