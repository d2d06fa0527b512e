# pyright: basic, reportMissingImports=false
"""Factoriax: `envrax.make("factoriax/EasyRocket-v1")`, or `wrap(env, params)` for one by hand."""

import functools
import importlib
from typing import Any

import jax

from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.library import require, suite_of, wrap_object
from envrax.interop.peer.spaces import box_and_discrete
from envrax.interop.peer.types import NO_LIMIT, PeerReset, PeerStep
from envrax.registry import register_suite
from envrax.spaces import Space

require("factoriax", "0.1", "engine.envs.registry", "make")

from factoriax.engine.envs.registry import list_scenarios  # noqa: E402
from factoriax.make import env_from_name  # noqa: E402

PIXELS = 16
"""The side of a tile in an image."""


class FactoriaxEnv(PeerEnv):
    """
    A scenario of Factoriax. `params` are its `EnvParams`.

    `options` are keywords of `env_from_name`, such as `obs` and `obs_radius`. The goal of a
    scenario terminates; `params.max_timesteps` truncates.
    """

    library = "factoriax"
    limit_param = "max_timesteps"

    def build(self) -> Any:
        options = {"auto_reset": False, **self.config.options}
        env, self._default_params = env_from_name(self.config.id, **options)
        return env

    def default_params(self) -> Any:
        return self.peer.default_params if self._user_peer else self._default_params

    def spaces(self) -> tuple[Space, Space]:
        return box_and_discrete(self.peer, self.concrete_params, self.observed)

    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        return PeerReset(*self.peer.reset_env(rng, params))

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        obs, inner, reward, _, info = self.peer.step_env(rng, inner, action, params)
        # Without a limit, Factoriax's `done` is a termination.
        terminated = self.peer.is_terminal(inner, params.replace(max_timesteps=NO_LIMIT))
        return PeerStep(obs, inner, reward, terminated, info=info)

    def draw(self, inner: Any) -> Any:
        return self._renderer.jit_render_map(inner)

    @functools.cached_property
    def _renderer(self) -> Any:
        return importlib.import_module("factoriax.engine.renderer").JaxRenderer(PIXELS)


def wrap(env: Any, params: Any = None, *, max_steps: int = 0) -> FactoriaxEnv:
    """
    An environment of Factoriax that you built, without the library's own auto-reset.

    Parameters
    ----------
    env : factoriax.engine.envs.base.FactoriaxEnv
        The environment, which may be in an `ActionMaskWrapper`.
    params : EnvParams or dict, optional
        Its parameters, or changes to `env.default_params`.
    max_steps : int, default 0
        Time limit; 0 takes that of the parameters.

    Raises
    ------
    TypeError
        If it is not an environment of Factoriax, or resets itself.
    """
    methods = ("reset_env", "step_env", "is_terminal")
    return wrap_object(FactoriaxEnv, env, methods, params, max_steps)


register_suite(suite_of(FactoriaxEnv, [id for id, _ in list_scenarios()]))
