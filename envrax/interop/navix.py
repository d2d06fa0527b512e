# pyright: basic
"""navix: `envrax.make("navix/Navix-Empty-5x5-v0")`, or `wrap(env)` for one built by hand."""

from typing import Any

import jax

from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.library import key_used_twice, require, suite_of, wrap_object
from envrax.interop.peer.spaces import box
from envrax.interop.peer.types import PeerReset, PeerStep
from envrax.registry import register_suite
from envrax.spaces import Discrete, Space

navix = require("navix", "4.0")
observations = navix.observations

_WALL = "a wall is -1, where the space begins at 0"
MENDED = {
    observations.categorical: (-1, None, _WALL),
    observations.categorical_first_person: (-1, 100, f"{_WALL}, and a place off the grid is 100"),
}
"""Observations that leave navix's own bounds: the true ones (low, high), and the reason."""

KEYS_TWICE = {
    "Crossings": "draws both coordinates of a gap",
    "DoorKey": "draws the direction, the goal and the key, where the start is random,",
    "FourRooms": "draws the openings, the positions and the direction",
    "GoToDoor": "draws the positions, the colours and the mission",
    "KeyCorridor": "draws a row and a place in it, and the colour of the key and the goal",
}
"""Classes of navix whose reset uses a PRNG key twice: the draws that share it."""


class NavixEnv(PeerEnv):
    """
    An environment of navix.

    `options` are keywords of `navix.make`. `state.inner` is its `Timestep`, without the observation
    and without the cache of drawn walls, which a step computes again where it is needed.
    """

    library = "navix"

    def build(self) -> Any:
        return navix.make(self.config.id, **self.config.options)

    def limit(self) -> int:
        return int(self.peer.max_steps)

    def spaces(self) -> tuple[Space, Space]:
        obs_space = self.peer.observation_space
        low, high, _ = MENDED.get(self.peer.observation_fn, (obs_space.minimum, None, ""))
        high = obs_space.maximum if high is None else high
        return box(low, high, self.observed), Discrete(int(self.peer.action_space.n))

    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        timestep = self.peer.reset(rng)
        return PeerReset(timestep.observation, _without_obs_and_cache(timestep))

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        peer = self.peer.replace(max_steps=self.config.max_steps)  # the penalty reads it too
        step = peer._step(inner.replace(state=_with_cache(inner.state)), action)
        return PeerStep(
            step.observation,
            _without_obs_and_cache(step),
            step.reward,
            step.is_termination(),
            step.is_truncation(),
            dict(step.info),
        )

    def observation(self, params: Any, inner: Any) -> Any:
        # A function of the user may draw from the key, which `reset` replaces after it observed.
        parts = type(self.peer), self.peer.observation_fn
        if not all(x.__module__.startswith("navix.") for x in parts):
            return None
        return self.peer.observation_fn(_with_cache(inner.state))

    @property
    def waivers(self) -> dict[str, str]:
        name = type(self.peer).__name__
        if name not in KEYS_TWICE or not getattr(self.peer, "random_start", True):
            return {}
        return key_used_twice(f"navix's {name} {KEYS_TWICE[name]} from one key")

    @property
    def mended_bounds(self) -> dict[str, str]:
        mended = MENDED.get(self.peer.observation_fn)
        return {"obs": mended[2]} if mended else {}

    def draw(self, inner: Any) -> Any:
        return _draw(inner.state)


def _without_obs_and_cache(timestep: Any) -> Any:
    return timestep.replace(observation=None, state=timestep.state.replace(cache=None))


def _with_cache(state: Any) -> Any:
    return state.replace(cache=navix.rendering.cache.RenderingCache.init(state.grid))


@jax.jit
def _draw(state: Any) -> Any:
    return observations.rgb(_with_cache(state))


def wrap(env: Any, params: Any = None, *, max_steps: int = 0) -> NavixEnv:
    """
    A navix environment that you built.

    Parameters
    ----------
    env : navix.Environment
        The environment.
    params : None
        navix has no parameters besides the arguments of its constructor.
    max_steps : int, default 0
        Time limit; 0 takes that of `env`.

    Raises
    ------
    TypeError
        If it is not an environment of navix, or breaks the contract of one.
    """
    return wrap_object(NavixEnv, env, navix.Environment, params, max_steps)


register_suite(suite_of(NavixEnv, navix.registry()))
