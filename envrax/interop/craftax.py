# pyright: basic, reportMissingImports=false
"""
craftax: `envrax.make("craftax/Craftax-Symbolic-v1")`, or `wrap(env, params)` for one built by hand.

The library renders its textures when its modules are first imported, which takes minutes, and
caches them in files beside its own code, in `site-packages`. It prints a message.
"""

import functools
import importlib
from typing import Any

import jax
import numpy as np

from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.library import innermost, key_used_twice, require, suite_of
from envrax.interop.peer.spaces import box_and_discrete
from envrax.interop.peer.types import NO_LIMIT, PeerConfig, PeerReset, PeerStep
from envrax.registry import register_suite
from envrax.spaces import Space

require("craftax", "1.6", "craftax_env")

from craftax.craftax_env import make_craftax_env_from_name  # noqa: E402

IDS = (
    "Craftax-Symbolic-v1",
    "Craftax-Pixels-v1",
    "Craftax-Classic-Symbolic-v1",
    "Craftax-Classic-Pixels-v1",
)


class CraftaxEnv(PeerEnv):
    """
    An environment of craftax. `params` are its `EnvParams`, `options` its `static_env_params`.

    Death, and in Craftax the defeat of the boss, terminates; `params.max_timesteps` truncates.
    `info` is that of craftax: the achievements on the step that ends an episode, terminated or
    truncated, and `discount`, which is 0 at a termination only.
    """

    library = "craftax"
    limit_param = "max_timesteps"

    def build(self) -> Any:
        env = make_craftax_env_from_name(self.config.id, auto_reset=False)
        return type(env)(**self.config.options) if self.config.options else env

    def default_params(self) -> Any:
        return self.peer.default_params

    def spaces(self) -> tuple[Space, Space]:
        return box_and_discrete(self.peer, self.concrete_params, self.observed)

    @property
    def waivers(self) -> dict[str, str]:
        return key_used_twice(
            "craftax uses keys again: where it generates its world, and in steps of Craftax too"
        )

    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        return PeerReset(*self.peer.reset_env(rng, params))

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        obs, inner, reward, _, info = self.peer.step_env(rng, inner, action, params)
        # craftax's `done` does not distinguish the ends: compute the termination without the limit.
        endless = params.replace(max_timesteps=NO_LIMIT)
        terminated = self.peer.is_terminal(inner, endless)
        info = {**info, "discount": self.peer.discount(inner, endless)}
        truncated = inner.timestep >= params.max_timesteps
        return PeerStep(obs, inner, reward, terminated, truncated, info)

    def observation(self, params: Any, inner: Any) -> Any:
        cls = type(self.peer)  # one of the user may observe more than its `get_obs`
        is_drawn = cls.__module__.startswith("craftax.") and "Pixels" in cls.__name__
        return self.peer.get_obs(inner) if is_drawn else None

    def draw(self, inner: Any) -> Any:
        return np.clip(self._draw(inner), 0, 255)

    @functools.cached_property
    def _draw(self) -> Any:
        origins = [base.__module__ for base in type(self.peer).__mro__]
        classic = any(origin.startswith("craftax.craftax_classic") for origin in origins)
        home = "craftax.craftax_classic" if classic else "craftax.craftax"
        size = importlib.import_module(f"{home}.constants").BLOCK_PIXEL_SIZE_IMG
        return jax.jit(
            importlib.import_module(f"{home}.renderer").make_craftax_pixel_renderer(size)
        )


def wrap(env: Any, params: Any = None, *, max_steps: int = 0) -> CraftaxEnv:
    """
    A craftax environment that you built, with or without the library's own auto-reset.

    Parameters
    ----------
    env : EnvironmentNoAutoReset or EnvironmentAutoReset
        The environment.
    params : EnvParams or dict, optional
        Its parameters, or changes to `env.default_params`.
    max_steps : int, default 0
        Time limit; 0 takes that of the parameters.

    Raises
    ------
    TypeError
        If it is not an environment of craftax.
    """
    innermost("craftax", env, ("reset_env", "step_env", "is_terminal", "default_params"))
    name = env.name.replace("-NoAutoReset", "")
    return CraftaxEnv(PeerConfig(id=name, params=params, max_steps=max_steps), peer=env)


register_suite(suite_of(CraftaxEnv, IDS))
