# pyright: basic, reportMissingImports=false
"""POPGym Arcade: `envrax.make("popgym_arcade/BreakoutEasy")`, or `wrap(env)` for one by hand."""

import copy
import inspect
from typing import Any

import jax

from envrax.error import MissingPackageError
from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.library import key_used_twice, require, suite_of, wrap_object
from envrax.interop.peer.spaces import box_and_discrete
from envrax.interop.peer.types import PeerReset, PeerStep, steps_limit
from envrax.registry import register_suite
from envrax.spaces import Space

popgym_arcade = require("popgym_arcade", "0.0.7", "registration", package="popgym-arcade")

from gymnax.environments.environment import Environment  # noqa: E402
from popgym_arcade.registration import REGISTERED_ENVIRONMENTS  # noqa: E402

if hasattr(Environment, "is_terminated"):
    raise MissingPackageError(
        "envrax.interop.popgym_arcade: expected the module gymnax of stable-gymnax; got that of "
        "gymnax 1.0 or newer, which overwrites it. Install popgym-arcade without gymnax, or "
        "restore it with `pip install --force-reinstall --no-deps stable-gymnax`."
    )

KEYS_TWICE = {
    "BattleShip": "the ships and the first place",
    "CartPole": "the start and its noise",
    "MineSweeper": "the mines and the first place",
    "Navigator": "the board and the first place",
}
"""Games whose reset uses a PRNG key twice: the draws that share it."""

OWN_KEYS = {
    "Navigator": "the treasure from a fixed key",
    "Skittles": "what a partial view hides from a key made of the time",
}
"""Games that make a PRNG key themselves: what they draw from it."""

_LIMITS = ("max_steps_in_episode", "max_episode_length")  # names in environments


class ArcadeEnv(PeerEnv):
    """
    An environment of POPGym Arcade. `params` are its `EnvParams`.

    `options` are keywords of its class, such as `partial_obs` and `obs_size`. Observations are
    images, as are those of `render`. An end at the time limit is a truncation, any other a
    termination.
    """

    library = "popgym_arcade"
    limit_param = "max_steps_in_episode"

    def build(self) -> Any:
        return popgym_arcade.make(self.config.id, **self.config.options)[0]

    def default_params(self) -> Any:
        return self.with_limit(self.peer.default_params, getattr(self.peer, self._limit_name))

    def limit(self) -> int:
        own = getattr(self.peer, self._limit_name)
        return steps_limit(getattr(self.params, "max_steps_in_episode", own))

    def spaces(self) -> tuple[Space, Space]:
        return box_and_discrete(self.peer, self.concrete_params, self.observed)

    @property
    def waivers(self) -> dict[str, str]:
        waived: dict[str, str] = {}
        for name in [base.__name__ for base in type(self.peer).__mro__]:
            if name in KEYS_TWICE:
                waived |= key_used_twice(f"{name} draws {KEYS_TWICE[name]} from one key")
            if name in OWN_KEYS:
                waived["draws_depend_on_the_key"] = f"{name} draws {OWN_KEYS[name]}"
        return waived

    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        return PeerReset(*self._limited(params).reset_env(rng, params))

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        peer = self._limited(params)
        obs, inner, reward, done, info = peer.step_env(rng, inner, action, params)
        return PeerStep(obs, inner, reward, terminated=done, truncated=None, info=info)

    def observation(self, params: Any, inner: Any) -> Any:
        is_own = type(self.peer).__module__.startswith("popgym_arcade.")
        return self._limited(params).get_obs(inner) if is_own and not self._is_noisy else None

    @property
    def _is_noisy(self) -> bool:
        """Whether images have noise from a key that is not in the state."""
        return "key" in inspect.signature(self.peer.render).parameters

    def _limited(self, params: Any) -> Any:
        """The library's object with the time limit in force, which some rewards depend on."""
        peer = copy.copy(self.peer)
        limit = getattr(params, "max_steps_in_episode", self.config.max_steps)
        setattr(peer, self._limit_name, limit)
        return peer

    @property
    def _limit_name(self) -> str:
        return next(name for name in _LIMITS if hasattr(self.peer, name))

    def draw(self, inner: Any) -> Any:
        noise = (self.concrete_params, jax.random.key(0)) if self._is_noisy else ()
        return self.peer.render(inner, *noise)


def wrap(env: Any, params: Any = None, *, max_steps: int = 0) -> ArcadeEnv:
    """
    An environment of POPGym Arcade that you built.

    Parameters
    ----------
    env : gymnax.environments.environment.Environment
        The environment.
    params : EnvParams or dict, optional
        Its parameters, or changes to `env.default_params`.
    max_steps : int, default 0
        Time limit; 0 takes that of `env`.

    Raises
    ------
    TypeError
        If it is not an environment of POPGym Arcade.
    """
    return wrap_object(ArcadeEnv, env, ("reset_env", "step_env", "render"), params, max_steps)


register_suite(suite_of(ArcadeEnv, REGISTERED_ENVIRONMENTS))
