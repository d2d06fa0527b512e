"""`EpisodicEnv`: an environment in three functions."""

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.callables import require_parameters
from envrax._jax.keys import refuses_seed, require_key
from envrax._jax.returned import require_tuple
from envrax.env import ActSpaceT, ConfigT, EnvState, Info, JaxEnv, ObsSpaceT, StateT


class EpisodicEnv(JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    An environment in three functions: `begin`, `advance` and `observe`.

    `reset` and `step` are those of this class. They split the key, count the steps, truncate where
    `at_limit`, and set `done`, `info["terminated"]` and `info["truncated"]`.
    """

    @abstractmethod
    def begin(self, key: jax.Array, **episode: jax.Array) -> StateT:
        """
        The first state of an episode.

        Parameters
        ----------
        key : jax.Array
            PRNG key to draw from.
        **episode : jax.Array
            `rng`, `step` and `done`, for the state: `MyState(x=x, **episode)`.
        """

    @abstractmethod
    def advance(self, state: StateT, action: Any) -> tuple[StateT, Any, jax.Array | bool]:
        """
        What a step changes. A random one splits `state.rng`.

        Parameters
        ----------
        state : StateT
            State before the step. It is not modified.
        action : pytree of jax.Array
            An element of `action_space`.

        Returns
        -------
        new_state : StateT
            State after the step. Its `step` and `done` are replaced: leave them as they are.
        reward : jax.Array
            float32 scalar; with several agents, a dict of one for each.
        terminated : jax.Array
            bool scalar, True if the task is over. The time limit is not looked at here.
        """

    @abstractmethod
    def observe(self, state: StateT) -> Any:
        """The observation of a state, an element of `observation_space`."""

    def info(self, state: StateT) -> Info:
        """
        Further entries of a step's info, from the state after the step; none by default.

        Not `terminated` and `truncated`, which `advance` and `at_limit` decide.
        """
        return {}

    @refuses_seed
    def reset(self, rng: jax.Array) -> tuple[Any, StateT]:
        who = type(self).__name__
        require_key(rng, f"{who}.reset", "Pass one key; `VecEnv` splits it.")
        rng, key = jax.random.split(rng)
        episode: Any = {"rng": rng, "step": jnp.int32(0), "done": jnp.bool_(False)}
        try:
            state: Any = self.begin(key, **episode)
        except TypeError:
            form = f"{who}: expected `begin(self, key, **episode)`"
            require_parameters(form, self.begin, key, **episode)
            raise
        self._require("begin", "the state alone, an EnvState", isinstance(state, EnvState), state)
        return self.observe(state), state

    def step(self, state: StateT, action: Any) -> tuple[Any, StateT, Any, jax.Array, Info]:
        who = type(self).__name__
        advanced, reward, terminated = require_tuple(who, "advance", self.advance(state, action))
        is_state = isinstance(advanced, EnvState)
        self._require("advance", "(state, reward, terminated)", is_state, advanced)
        is_flag = np.shape(terminated) == () and _dtype_of(terminated) == np.bool_
        self._require("advance", "terminated as a bool scalar", is_flag, terminated)
        counted: Any = advanced.replace(step=state.step + 1)
        terminated = jnp.asarray(terminated)
        truncated = self.at_limit(counted)
        new_state = counted.replace(done=terminated | truncated)
        reasons = {"terminated": terminated, "truncated": truncated}
        own: Any = self.info(new_state)
        is_free = isinstance(own, dict) and not own.keys() & reasons
        self._require("info", "a dict without `terminated` and `truncated`", is_free, own)
        return self.observe(new_state), new_state, reward, new_state.done, {**own, **reasons}

    def _require(self, method: str, expected: str, is_so: bool, got: Any) -> None:
        """Raise a TypeError for what a method of the subclass should not return."""
        if not is_so:
            who = type(self).__name__
            raise TypeError(f"{who}: expected {method} to return {expected}; got {got!r}.")


def _dtype_of(x: Any) -> np.dtype[Any]:
    return np.dtype(getattr(x, "dtype", type(x)))
