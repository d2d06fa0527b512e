# pyright: basic, reportMissingImports=false
"""`MujocoEnv`: the base of the adapters of brax and MuJoCo Playground."""

import copy
import importlib
import os
import sys
from functools import cached_property
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.names import suggestion
from envrax._jax.types import output_types
from envrax.config import FieldError
from envrax.interop.base import PeerEnv
from envrax.interop.convert import box, nested, unbounded
from envrax.interop.forms import Form, arguments_read, as_dicts
from envrax.interop.params import Params
from envrax.interop.physics import Physics
from envrax.interop.records import Advanced, Begun
from envrax.spaces import Space

HEIGHT, WIDTH = 240, 320
_DISPLAYS = {"DISPLAY", "WAYLAND_DISPLAY"}


class MujocoEnv(PeerEnv):
    """
    An environment whose `reset` and `step` are those of `brax.envs.Env`.

    `params` is its model; a dict of changes names arrays of it, with dots for nested ones. What the
    environment computed from its model when it was built stays. Observations are unbounded, actions
    between -1 and 1; `info` has `State.metrics`.
    """

    model_attribute: ClassVar[str]  # of the library's environment

    def default_params(self) -> Any:
        self._physics = Physics(self.peer.unwrapped, self.model_attribute)
        return self._physics.model

    def change(self, params: Any, changes: Any, caller: str = "") -> Any:
        if params is None:
            return super().change(params, changes, caller)
        who = caller or self._who
        if isinstance(changes, dict):
            kept = self._physics.differences(who, params)
            given = {**kept, **self._physics.changed(who, changes)}
        else:
            given = self._physics.differences(who, super().change(params, changes))
            given = {k: x for k, x in given.items() if not self._physics.has(k, x)}
            if len(given) == len(self._physics.fields):
                raise FieldError(
                    f"{who}: expected `params` by name where they are drawn; got a whole "
                    f"{type(changes).__name__}. Give a dict of what changes."
                )
        return self._physics.with_changes(given)

    @cached_property
    def changes(self) -> dict[str, jax.Array]:
        return self._physics.differences(self._who, self.params)

    def spaces(self) -> tuple[Space, Space]:
        acted = jax.ShapeDtypeStruct((self.peer.action_size,), np.float32)
        return nested(unbounded, self.observed), box(-1, 1, acted)

    def begin(self, params: Any, rng: jax.Array) -> Begun:
        with self._physics.applied(params):
            inner = self.peer.reset(rng)
        return Begun(as_dicts(inner.obs), inner)

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> Advanced:
        with self._physics.applied(params):
            inner = self.peer.step(inner, action)
        info = dict(inner.metrics)
        return Advanced(as_dicts(inner.obs), inner, inner.reward, inner.done, info=info)

    def _take_spaces(self) -> None:
        super()._take_spaces()
        if self.changes:
            self._form(jax.random.key(0))  # which refuses those that nothing reads

    def _find_form(self, key: jax.ShapeDtypeStruct) -> Form:
        form = super()._find_form(key)
        read = self._read(form, key, self.changes) if self.changes else set[str]()
        if unread := set(self.changes) - read:
            known = self._read(form, key, jax.tree.map(jnp.asarray, self._physics.fields))
            alike = [x for x in known if x.replace(".", "_") in unread]
            raise FieldError(
                f"{self._who}: expected `params` that its physics reads; got "
                f"{', '.join(sorted(unread))}, which neither a reset nor a step reads here. What "
                f"is zero in the model is not computed. {suggestion(unread, alike)}"
            )
        return form

    def _read(self, form: Form, key: Any, changes: dict[str, jax.Array]) -> set[str]:
        """The names that a reset or a step depends on."""
        action = output_types(self.action_space.sample)
        params = Params(changes)
        begun = self._begin.trace(params, key)
        advanced = self._advance.trace(params, form.inner, action, key)
        read = zip(*(arguments_read(x.jaxpr) for x in (begun, advanced)), strict=False)
        return {name for name, used in zip(sorted(changes), read, strict=False) if any(used)}

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
        model = copy.copy(model) if self.changes else model
        for name, value in self.changes.items():
            if hasattr(model, name):
                getattr(model, name)[:] = np.asarray(value)
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
