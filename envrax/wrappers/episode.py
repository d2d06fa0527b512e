"""Wrappers that change the returned `done`, or record the return and length of an episode."""

from typing import Any, Generic

import chex
import jax
import jax.numpy as jnp

from envrax.agent_values import add_rewards, by_agent
from envrax.autoreset.slot import require_rewards
from envrax.env import ActSpaceT, ConfigT, Info, JaxEnv, ObsSpaceT, StateT
from envrax.wrappers.base import Wrapper, add_to_info, layers, require_that
from envrax.wrappers.stateful import InnerStateT, StatefulWrapper, WrapperState


class ExpandDims(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Give the returned reward and done a trailing axis of 1; `state.done` stays a bool scalar.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = ExpandDims(CountingEnv())
    >>> obs, state = env.reset(jax.random.key(0))
    >>> obs, state, reward, done, info = env.step(state, 2)
    >>> reward.tolist(), done.tolist(), state.done.tolist()
    ([2.0], [False], False)
    """

    def reward(self, reward: Any) -> Any:
        return jax.tree.map(lambda x: jnp.asarray(x)[..., None], reward)

    def done(self, done: jax.Array) -> jax.Array:
        return jnp.asarray(done)[..., None]


class EpisodeDiscount(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Return a discount in place of done: float32, 1.0 while the episode runs and 0.0 at its end.

    `state.done` stays a bool scalar.

    Raises
    ------
    TypeError
        If `env` contains an `EpisodeDiscount` already.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = EpisodeDiscount(CountingEnv())
    >>> obs, state = env.reset(jax.random.key(0))
    >>> float(env.step(state, 0)[3])
    1.0
    """

    def __init__(self, env: JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT]) -> None:
        super().__init__(env)
        has_discount = any(isinstance(layer, EpisodeDiscount) for layer in layers(env))
        expected = "an environment that returns done as a bool"
        require_that(not has_discount, type(self), expected, env)

    def done(self, done: jax.Array) -> jax.Array:
        return 1.0 - jnp.asarray(done).astype(jnp.float32)


@chex.dataclass
class EpisodeStatisticsState(WrapperState[InnerStateT]):
    """
    State of `RecordEpisodeStatistics`.

    Attributes
    ----------
    episode_return : jax.Array
        float32 scalar, sum of the rewards of this episode. In a multi-agent environment, a dict
        with one for each agent.
    episode_length : jax.Array
        int32 scalar, number of steps of this episode.
    """

    episode_return: jax.Array
    episode_length: jax.Array


class RecordEpisodeStatistics(
    StatefulWrapper[
        ObsSpaceT, ActSpaceT, EpisodeStatisticsState[InnerStateT], ConfigT, InnerStateT
    ],
    Generic[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT],
):
    """
    Add the return and length of an episode as `info["episode"] = {"r": float32, "l": int32}`.

    On the step that ends an episode, "r" is the sum of its rewards, added in float32 one after the
    other, and "l" the number of its steps. On all other steps both are zero, so `l > 0` marks the
    end of an episode. In a multi-agent environment, "r" is a dict with one return for each agent.

    Raises
    ------
    ValueError
        At the first step, if the environment has an `info["episode"]` of its own.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = RecordEpisodeStatistics(CountingEnv(EnvConfig(max_steps=2)))
    >>> obs, state = env.reset(jax.random.key(0))
    >>> for _ in range(2):
    ...     obs, state, reward, done, info = env.step(state, 1)
    >>> float(info["episode"]["r"]), int(info["episode"]["l"])
    (2.0, 2)
    """

    counts_episodes = True

    def observe(self, state: EpisodeStatisticsState[InnerStateT]) -> Any:
        return self._observe_inner(state.env_state)

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        zero = by_agent(self.env, jnp.float32(0))
        return obs, {"episode_return": zero, "episode_length": jnp.int32(0)}

    def on_step(
        self,
        obs: Any,
        state: EpisodeStatisticsState[InnerStateT],
        reward: jax.Array,
        done: jax.Array,
        info: Info,
    ) -> tuple[Any, EpisodeStatisticsState[InnerStateT], jax.Array, jax.Array, Info]:
        require_rewards(self.env, reward)
        episode_return = add_rewards(state.episode_return, reward)
        episode_length = state.episode_length + 1
        episode = {
            "r": jax.tree.map(lambda r: jnp.where(state.done, r, jnp.float32(0)), episode_return),
            "l": jnp.where(state.done, episode_length, jnp.int32(0)),
        }
        state = state.replace(episode_return=episode_return, episode_length=episode_length)
        info = add_to_info(RecordEpisodeStatistics, self.env, info, "episode", episode)
        return obs, state, reward, done, info
