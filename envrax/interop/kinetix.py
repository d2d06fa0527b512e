# pyright: basic, reportMissingImports=false
"""kinetix: `envrax.make("kinetix/s/h4_thrust_aim")`, or `wrap(env, params)` for one you built."""

import functools
from importlib import resources
from typing import Any

import jax
import numpy as np

from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.containers import as_dicts
from envrax.interop.peer.library import innermost, require, suite_of
from envrax.interop.peer.spaces import box, nested, unbounded
from envrax.interop.peer.types import NO_LIMIT, PeerConfig, PeerReset, PeerStep
from envrax.registry import register_suite
from envrax.spaces import Dict, Discrete, MultiDiscrete, Space

require("kinetix", "3.0", "environment", "render", "util.saving", package="kinetix-env")

from kinetix.environment import (  # noqa: E402
    ActionType,
    DiscreteActions,
    EntityObservations,
    KinetixObservation,
    MultiDiscreteActions,
    ObservationType,
    PixelObservations,
    make_kinetix_env,
)
from kinetix.render import make_render_pixels  # noqa: E402
from kinetix.util.saving import load_from_json_file  # noqa: E402

SIZES = ("s", "m", "l")


class KinetixEnv(PeerEnv):
    """
    A level of kinetix; every episode begins in it. `params` are its `EnvParams`.

    `options` are keywords of `make_kinetix_env`, such as `action_type` (default `DISCRETE`) and
    `observation_type` (default `SYMBOLIC_FLAT`): members of kinetix's enums, or their names in
    small letters. `params.max_timesteps` truncates; reaching the goal, or touching a forbidden
    shape, terminates. `info` is that of kinetix, `GoalR` and `distance`.
    """

    library = "kinetix"
    limit_param = "max_timesteps"

    def build(self) -> Any:
        if "env_params" in self.config.options:
            raise TypeError("`env_params` is not an option here: pass it as `params`")
        level, static, self._level_params = load_from_json_file(self.config.id)
        options: dict[str, Any] = {"action_type": "discrete", "observation_type": "symbolic_flat"}
        options |= {"static_env_params": static, **self.config.options}
        for name, enum in (("action_type", ActionType), ("observation_type", ObservationType)):
            if isinstance(options[name], str):
                options[name] = enum.from_string(options[name])
        options = {"env_params": self._level_params, "reset_fn": lambda rng: level, **options}
        return make_kinetix_env(**options)

    def default_params(self) -> Any:
        return self.peer.observation_type.env_params if self._user_peer else self._level_params

    def spaces(self) -> tuple[Space, Space]:
        obs_space: Any = nested(unbounded, self.observed)
        if isinstance(self.peer.observation_type, PixelObservations):
            obs_space = Dict({**obs_space.spaces, "image": box(0, 1, self.observed["image"])})
        return obs_space, self._action_space_of(self.peer.action_space(self.concrete_params))

    def _action_space_of(self, space: Any) -> Space:
        if isinstance(self.peer.action_type, MultiDiscreteActions):
            return MultiDiscrete(space.number_of_dims_per_distribution.tolist())
        if isinstance(self.peer.action_type, DiscreteActions):
            return Discrete(int(space.n))
        return box(space.low, space.high, jax.ShapeDtypeStruct(space.shape, np.float32))

    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        _, inner = self.peer.reset_env(rng, params, None)
        return PeerReset(self._observe(params, inner), inner)

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        # Without a limit, kinetix's `done` is a termination. No observation shows the time.
        endless = params.replace(max_timesteps=NO_LIMIT)
        _, inner, reward, terminated, info = self.peer.step_env(rng, inner, action, endless)
        truncated = inner.timestep >= params.max_timesteps
        return PeerStep(self._observe(params, inner), inner, reward, terminated, truncated, info)

    def observation(self, params: Any, inner: Any) -> Any:
        is_drawn = isinstance(self.peer.observation_type, PixelObservations)
        return self._observe(params, inner) if is_drawn else None

    def _observe(self, params: Any, inner: Any) -> Any:
        """The observation with these params; kinetix uses those that it was built with."""
        obs_type = self.peer.observation_type
        # A class of the user stays as it is.
        if type(obs_type).__module__ == KinetixObservation.__module__:
            flags = (obs_type.ignore_mask,) if isinstance(obs_type, EntityObservations) else ()
            with jax.ensure_compile_time_eval():
                obs_type = type(obs_type)(params, obs_type.static_env_params, *flags)
        return as_dicts(obs_type.get_obs(inner))

    def draw(self, inner: Any) -> Any:
        return np.clip(self._draw(inner), 0, 255).transpose(1, 0, 2)[::-1]

    @functools.cached_property
    def _draw(self) -> Any:
        return jax.jit(make_render_pixels(self.concrete_params, self.peer.static_env_params))


def levels() -> list[str]:
    """The levels in the wheel as `<size>/<level>`, the names of their files."""
    home = resources.files("kinetix") / "levels"
    files = [(size, file.name) for size in SIZES for file in (home / size).iterdir()]
    return sorted(f"{size}/{name[:-5]}" for size, name in files if name.endswith(".json"))


def wrap(env: Any, params: Any = None, *, max_steps: int = 0) -> KinetixEnv:
    """
    A kinetix environment that you built, with or without the library's own auto-reset.

    Parameters
    ----------
    env : kinetix.environment.KinetixEnv
        The environment; its `reset_function` draws the level in which an episode begins.
    params : EnvParams or dict, optional
        Its parameters, or changes to those that its observations were built with.
    max_steps : int, default 0
        Time limit; 0 takes that of the parameters.

    Raises
    ------
    TypeError
        If it is not an environment of kinetix, or has no `reset_function`.
    """
    innermost("kinetix", env, ("reset_env", "step_env"))
    if env.reset_function is None:
        raise TypeError(
            "envrax.interop.kinetix.wrap: expected an environment that knows where an episode "
            "begins; its `reset_function` is None. Pass `reset_fn=lambda rng: level` to "
            "`make_kinetix_env`."
        )
    config = PeerConfig(id=type(env).__name__, params=params, max_steps=max_steps)
    return KinetixEnv(config, peer=env)


register_suite(suite_of(KinetixEnv, levels()))
