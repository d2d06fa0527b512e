# pyright: basic
"""gymnax: `envrax.make("gymnax/CartPole-v1")`, or `wrap(env, params)` for one built by hand."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from envrax.env import AnyEnv
from envrax.interop.out.auto_reset import Bridge
from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.containers import as_dicts
from envrax.interop.peer.figures import image_of, on_first_use
from envrax.interop.peer.library import innermost, require, suite_of
from envrax.interop.peer.spaces import from_library_space
from envrax.interop.peer.types import PeerConfig, PeerReset, PeerStep
from envrax.interop.protocol.wrapping import wrap_by_protocol
from envrax.registry import register_suite
from envrax.spaces import Box, Space

gymnax = require("gymnax", "1.0", has="environments.environment.Environment.is_truncated")
Environment = gymnax.environments.environment.Environment

DOWNLOADS = {"MNISTBandit-bsuite": "the four files of MNIST (11 MB), to /tmp/mnist"}
"""Ids that need a network connection to build, and the files that gymnax downloads."""

CLASSIC = ("Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1")
"""Ids that gymnax draws through Gymnasium."""

DRAWN = (
    *CLASSIC,
    "Asterix-MinAtar",
    "Breakout-MinAtar",
    "Freeway-MinAtar",
    "Seaquest-MinAtar",
    "SpaceInvaders-MinAtar",
    "Catch-bsuite",
    "FourRooms-misc",
    "MetaMaze-misc",
    "PointRobot-misc",
    "Pong-misc",
)
"""Ids that gymnax can draw, those that are not `CLASSIC` through matplotlib."""

_Bounds = list[tuple[Any, float, float]]  # an index, and the true low and high there

MENDED: dict[str, tuple[str, Callable[[Any], _Bounds]]] = {
    "BernoulliBandit-misc": (
        "time is scaled by `t_max`, whatever the time limit",
        lambda p: [(3, 0, p.min_lim + (p.max_lim - p.min_lim) * p.max_steps_in_episode / p.t_max)],
    ),
    "GaussianBandit-misc": (
        "the last reward is normal and has no bounds; scaled time begins at -1",
        lambda p: [(0, -np.inf, np.inf), (3, -1, 0)],
    ),
    "MemoryChain-bsuite": (
        "a bit of the context is shown as -1 or 1, and the time left ends at -1.5e-8",
        lambda p: [(0, -1e-6, 1), (slice(2, None), -1, 1)],
    ),
    "MetaMaze-misc": (
        "the last reward is as large as the params say; scaled time begins at -1",
        lambda p: [(-2, -np.inf, np.inf), (-1, -1, 0)],
    ),
    "UmbrellaChain-bsuite": ("the time left ends at -1.5e-8", lambda p: [(2, -1e-6, 1)]),
}
"""Ids whose observations leave gymnax's own bounds: the reason, and the wider bounds."""

_IDS_BY_NAME = {"DiscountingChain-v0": "DiscountingChain-bsuite"}  # not the id


class GymnaxEnv(PeerEnv):
    """An environment of gymnax. `params` are its `EnvParams`; `info` is its own."""

    library = "gymnax"
    limit_param = "max_steps_in_episode"

    def build(self) -> Any:
        try:
            return gymnax.make(self.config.id, **self.config.options)[0]
        except OSError as error:
            if self.config.id not in DOWNLOADS:
                raise
            raise OSError(
                f"no network for what it downloads, {DOWNLOADS[self.config.id]} ({error}). Build "
                "it once where there is a network, or put the files there"
            ) from error

    def default_params(self) -> Any:
        return self.peer.default_params

    def spaces(self) -> tuple[Space, Space]:
        params = self.concrete_params
        obs_space = from_library_space(self.peer.observation_space(params), self.observed)
        if self.mended_bounds and isinstance(obs_space, Box):
            _, bounds_of = MENDED[self.config.id]
            obs_space = _widen(obs_space, bounds_of(params))
        return obs_space, from_library_space(self.peer.action_space(params))

    @property
    def mended_bounds(self) -> dict[str, str]:
        if self.config.id not in MENDED:
            return {}
        return {"obs": MENDED[self.config.id][0]}

    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        obs, inner = self.peer.reset_env(rng, params)
        return PeerReset(as_dicts(obs), inner)

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        obs, inner, reward, terminated, info = self.peer.step_env(rng, inner, action, params)
        truncated = self.peer.is_truncated(inner, params)
        return PeerStep(as_dicts(obs), inner, reward, terminated, truncated, info)

    @property
    def can_render(self) -> bool:
        return self.config.id in DRAWN

    def draw(self, inner: Any) -> Any:
        name, params = self.peer.name, self.concrete_params
        if name in CLASSIC:
            return on_first_use("gymnax.visualize.vis_gym").render_gym_frame(name, inner, params)
        drawn = on_first_use("gymnax.visualize.visualizer").Visualizer(self.peer, params, [inner])
        drawn.init()
        return image_of(drawn.fig)


def _is_of_gymnax(env: Any) -> bool:
    """Whether gymnax wrote the class of an environment."""
    return type(env).__module__.startswith("gymnax.")


def _widen(space: Box, bounds: _Bounds) -> Box:
    low, high = (np.broadcast_to(x, space.shape).copy() for x in (space.low, space.high))
    for i, least, most in bounds:
        low[i] = np.minimum(low[i], least)
        high[i] = np.maximum(high[i], most)
    return Box(low, high, space.shape, space.dtype)


def wrap(env: Any, params: Any = None, *, max_steps: int = 0) -> AnyEnv:
    """
    An environment of gymnax that you built, or any object with its protocol.

    Parameters
    ----------
    env : Any
        An environment of gymnax. An object that others wrote, such as a subclass or a copy of
        gymnax, is read by its functions, as `envrax.wrap` does. For a result of `to_gymnax`, `wrap`
        returns the environment in it.
    params : EnvParams or dict, optional
        Its parameters, or changes to `env.default_params`.
    max_steps : int, default 0
        Time limit; 0 takes `max_steps_in_episode` or `max_timesteps` of the parameters.

    Raises
    ------
    TypeError
        If it is not understood, or breaks the contract of gymnax.
    """
    if isinstance(env, Bridge):
        return env.configured(params, max_steps)
    is_of_library = isinstance(env, Environment)
    inner = innermost("gymnax", env, Environment) if is_of_library else env
    if not is_of_library or not _is_of_gymnax(inner):
        return wrap_by_protocol(env, params, max_steps=max_steps, in_order=True)
    name = str(getattr(env, "name", type(env).__name__))
    name = _IDS_BY_NAME.get(name, name)
    return GymnaxEnv(PeerConfig(id=name, params=params, max_steps=max_steps), peer=env)


register_suite(suite_of(GymnaxEnv, gymnax.registered_envs))
