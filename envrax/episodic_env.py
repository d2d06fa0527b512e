"""`EpisodicEnv`: an environment in three functions."""

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp

from envrax._jax.returned import require_tuple
from envrax.env import ActSpaceT, ConfigT, Info, JaxEnv, ObsSpaceT, StateT


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
            State after the step. `step` and `done` are set afterwards.
        reward : jax.Array
            float32 scalar; with several agents, a dict of one for each.
        terminated : jax.Array
            bool scalar, True if the task is over. The time limit is not looked at here.
        """

    @abstractmethod
    def observe(self, state: StateT) -> Any:
        """The observation of a state, an element of `observation_space`."""

    def info(self, state: StateT) -> Info:
        """Further entries of a step's info, from the state after the step; none by default."""
        return {}

    def reset(self, rng: jax.Array) -> tuple[Any, StateT]:
        rng, key = jax.random.split(rng)
        state = self.begin(key, rng=rng, step=jnp.int32(0), done=jnp.bool_(False))
        return self.observe(state), state

    def step(self, state: StateT, action: Any) -> tuple[Any, StateT, Any, jax.Array, Info]:
        who = type(self).__name__
        advanced, reward, terminated = require_tuple(who, "advance", self.advance(state, action))
        counted = advanced.replace(step=state.step + 1)
        terminated = jnp.asarray(terminated)
        truncated = self.at_limit(counted)
        done = terminated | truncated
        new_state = counted.replace(done=done)
        info = {**self.info(new_state), "terminated": terminated, "truncated": truncated}
        return self.observe(new_state), new_state, reward, done, info
