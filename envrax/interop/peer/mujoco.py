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
from envrax._jax.dead_code import arguments_read
from envrax._jax.types import output_types
from envrax.config import FieldError
from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.common_types import CommonTypes
from envrax.interop.peer.containers import as_dicts
from envrax.interop.peer.mujoco_model import MujocoModel
from envrax.interop.peer.params import Params
from envrax.interop.peer.spaces import box, nested, unbounded
from envrax.interop.peer.types import PeerReset, PeerStep
from envrax.spaces import Space

HEIGHT, WIDTH = 240, 320
_DISPLAYS = {"DISPLAY", "WAYLAND_DISPLAY"}


class MujocoEnv(PeerEnv):
    """
    An environment whose `reset` and `step` are those of `brax.envs.Env`.

    `params` is its model; a dict of changes names arrays of it, with dots for nested ones. Values
    that the environment computed from its model when it was built stay as they are. Observations
    are unbounded, actions between -1 and 1; `info` has `State.metrics`.
    """

    model_attribute: ClassVar[str]  # of the library's environment

    def default_params(self) -> Any:
        self._model = MujocoModel(self.peer.unwrapped, self.model_attribute)
        return self._model.model

    def change(self, params: Any, changes: Any, caller: str = "") -> Any:
        if params is None:
            return super().change(params, changes, caller)
        who = caller or self._who
        if isinstance(changes, dict):
            kept = self._model.differences(who, params)
            return self._model.with_changes({**kept, **self._model.fit_changes(who, changes)})
        given = self._model.differences(who, super().change(params, changes))
        given = {k: x for k, x in given.items() if not self._model.has_value(k, x)}
        if len(given) == len(self._model.fields):
            raise FieldError(
                f"{who}: expected `params` by name where they are drawn; got a whole "
                f"{type(changes).__name__}. Give a dict of the changes."
            )
        return self._model.with_changes(given)

    @cached_property
    def changes(self) -> dict[str, jax.Array]:
        return self._model.differences(self._who, self.params)

    def spaces(self) -> tuple[Space, Space]:
        action = jax.ShapeDtypeStruct((self.peer.action_size,), np.float32)
        return nested(unbounded, self.observed), box(-1, 1, action)

    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        with self._model.set_in_library(params):
            inner = self.peer.reset(rng)
        return PeerReset(as_dicts(inner.obs), inner)

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        with self._model.set_in_library(params):
            inner = self.peer.step(inner, action)
        info = dict(inner.metrics)
        return PeerStep(as_dicts(inner.obs), inner, inner.reward, inner.done, info=info)

    def _set_spaces(self) -> None:
        super()._set_spaces()
        if self.changes:
            self._common_types(jax.random.key(0))  # raises an error for changes that nothing reads

    def _find_types(self, key: jax.ShapeDtypeStruct) -> CommonTypes:
        types = super()._find_types(key)
        used = self._used_changes(types, key, self.changes) if self.changes else set[str]()
        if unused := set(self.changes) - used:
            every_field = jax.tree.map(jnp.asarray, self._model.fields)
            used_fields = self._used_changes(types, key, every_field)
            similar = [x for x in used_fields if x.replace(".", "_") in unused]
            raise FieldError(
                f"{self._who}: expected `params` that its physics reads; got "
                f"{', '.join(sorted(unused))}, which neither a reset nor a step reads here. Terms "
                f"that are zero in the model are not computed. {suggestion(unused, similar)}"
            )
        return types

    def _used_changes(
        self, types: CommonTypes, key: Any, changes: dict[str, jax.Array]
    ) -> set[str]:
        """The names of the changes that a reset or a step depends on."""
        action = output_types(self.action_space.sample)
        params = Params.of(changes)
        reset = self._begin.trace(params, key)
        step = self._advance.trace(params, types.inner, action, key)
        # The first arguments of both programs are the changes, sorted by name.
        reads = zip(arguments_read(reset.jaxpr), arguments_read(step.jaxpr), strict=False)
        return {name for name, used in zip(sorted(changes), reads, strict=False) if any(used)}

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
