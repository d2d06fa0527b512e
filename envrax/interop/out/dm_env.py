# pyright: basic, reportMissingImports=false
"""`to_dm_env`: for agents that take environments of dm_env."""

from importlib import import_module
from typing import Any

import numpy as np

from envrax.env import AnyEnv, JaxEnv
from envrax.interop.out.host_loop import HostLoop
from envrax.interop.peer.library import require
from envrax.interop.peer.spaces import bounds_of
from envrax.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from envrax.spaces.base import kind

require("dm_env", "1.6", package="dm-env", extra="dm-env")

# By name, since a type checker takes `import dm_env` for this file.
dm_env: Any = import_module("dm_env")
specs: Any = import_module("dm_env.specs")

_WHO = "to_dm_env"


class DmEnv(dm_env.Environment):
    """An environment of envrax as one of dm_env; made by `to_dm_env`."""

    def __init__(self, env: AnyEnv, seed: int | None = None) -> None:
        if not isinstance(env, JaxEnv):
            raise TypeError(f"{_WHO}: expected a JaxEnv; got {env!r}. Pass one environment.")
        self.jax_env = env
        self._loop = HostLoop(env, _WHO)
        self._seed = self._loop.checked_seed(seed, "")
        self._begun = self._ended = False
        self._observation_spec = to_spec(env.observation_space, "observation")
        self._action_spec = to_spec(env.action_space, "action")

    def reset(self) -> Any:  # a TimeStep
        obs = self._loop.reset(self._seed).obs
        self._seed = None
        return self._first(obs)

    def _first(self, obs: Any) -> Any:
        self._begun, self._ended = True, False
        return dm_env.restart(obs)

    def step(self, action: Any) -> Any:  # a TimeStep
        if not self._begun:
            return self.reset()
        if self._ended:
            return self._first(self._loop.begin_next().obs)
        result = self._loop.step(action)
        reward = float(result.reward)
        self._ended = bool(result.terminated or result.truncated)
        if result.terminated:
            return dm_env.termination(reward, result.obs)
        if self._ended:
            return dm_env.truncation(reward, result.obs)
        return dm_env.transition(reward, result.obs)

    def observation_spec(self) -> Any:
        return self._observation_spec

    def action_spec(self) -> Any:
        return self._action_spec

    def close(self) -> None:
        self.jax_env.close()


def to_dm_env(env: AnyEnv, *, seed: int | None = None) -> DmEnv:
    """
    An environment as a `dm_env.Environment`.

    The step after the last one of an episode ignores its action and begins the next episode, as
    auto-reset does: by `reset_after`. The last step has discount 0 if the episode terminated, and 1
    if it was only truncated.

    Parameters
    ----------
    env : JaxEnv
        The environment.
    seed : int, optional
        The first `reset` sets `rng = jax.random.key(seed)`; without a seed it draws one from the
        operating system. Every reset does `rng, key = jax.random.split(rng)` and uses `key`.

    Raises
    ------
    TypeError
        If it is not a `JaxEnv`, or dm_env has no spec for a space.
    """
    return DmEnv(env, seed)


def to_spec(space: Space, name: str) -> Any:
    """The specs of dm_env for a space, in the same tuples and dicts."""
    match space:
        case Dict():
            return {key: to_spec(child, key) for key, child in space.spaces.items()}
        case Tuple():
            return tuple(to_spec(child, f"{name}_{i}") for i, child in enumerate(space.spaces))
        case Discrete():
            return specs.DiscreteArray(space.n, np.int64, name)
        case MultiDiscrete():
            highest = np.array(space.nvec) - 1
            return specs.BoundedArray(space.shape, np.int64, 0, highest, name)
        case MultiBinary():
            return specs.BoundedArray(space.shape, space.dtype, 0, 1, name)
        case Box() if kind(space.dtype) == "float" and _is_unbounded(space):
            return specs.Array(space.shape, space.dtype, name)
        case Box():
            low, high = bounds_of(space)
            return specs.BoundedArray(space.shape, space.dtype, low, high, name)
        case _:
            raise TypeError(f"{_WHO}: expected a space that dm_env has a spec for; got {space!r}.")


def _is_unbounded(space: Box) -> bool:
    return bool(np.all(np.isinf(space.low)) and np.all(np.isinf(space.high)))
