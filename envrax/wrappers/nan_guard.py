"""`NanGuard`: end episodes that have NaN or infinite values."""

from typing import Any, Generic

import chex
import jax
import jax.numpy as jnp

from envrax.env import ActSpaceT, ConfigT, Info, ObsSpaceT
from envrax.termination import end_if
from envrax.wrappers.base import add_to_info
from envrax.wrappers.stateful import InnerStateT, StatefulWrapper, WrapperState


@chex.dataclass
class NanGuardState(WrapperState[InnerStateT]):
    """
    State of `NanGuard`.

    Attributes
    ----------
    began_non_finite : jax.Array
        bool scalar, whether the first observation of the episode was NaN or infinite.
    """

    began_non_finite: jax.Array


class NanGuard(
    StatefulWrapper[ObsSpaceT, ActSpaceT, NanGuardState[InnerStateT], ConfigT, InnerStateT],
    Generic[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT],
):
    """
    End the episode in the step whose observation or reward is NaN or infinite.

    In that step the reward is 0, the non-finite values of the observation are 0, and
    `info["non_finite"]` is True. On all other steps `info["non_finite"]` is False.
    `info["terminated"]` and `info["truncated"]` say in every step why the episode ended; in that
    step they are True and False. In a `VecEnv` the slot begins its next episode, and other slots
    are not affected.

    An episode whose first observation is NaN or infinite ends in its first step in this way,
    because a reset returns no info.

    Apply it directly to the environment, inside wrappers that keep statistics or stack frames, so
    that they get only finite numbers. Only the observation and the reward are checked. Other
    entries of `info` are unchanged.

    Raises
    ------
    TypeError
        If `env` contains a `RecordEpisodeStatistics`, which would miss these ends of episodes.
    ValueError
        At the first step, if the environment has an `info["non_finite"]` of its own.
    """

    changes_episodes = True

    def observe(self, state: NanGuardState[InnerStateT]) -> Any:
        return _replace_non_finite(self._observe_inner(state.env_state))

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        return _replace_non_finite(obs), {"began_non_finite": _has_non_finite(obs)}

    def on_step(
        self, obs: Any, state: NanGuardState[InnerStateT], reward: Any, done: jax.Array, info: Info
    ) -> tuple[Any, ...]:
        non_finite = state.began_non_finite | _has_non_finite((obs, reward))
        # The key is there already if a NanGuard is inside this one.
        flag = non_finite | info["non_finite"] if "non_finite" in info else non_finite
        info = add_to_info(NanGuard, self.env, info, "non_finite", flag)
        stepped = state.env_state, done, info
        ended, done, info = end_if("NanGuard.step", self.env, stepped, terminated=non_finite)
        info["truncated"] &= ~non_finite
        reward = jax.tree.map(lambda x: jnp.where(non_finite, jnp.zeros_like(x), x), reward)
        return _replace_non_finite(obs), state.replace(done=ended), reward, done, info


def _has_non_finite(tree: Any) -> jax.Array:
    """Whether any number in the pytree is NaN or infinite."""
    finite = [jnp.all(_is_finite(x)) for x in jax.tree.leaves(tree)]
    return ~jnp.all(jnp.asarray(finite, jnp.bool_))


def _is_finite(x: Any) -> jax.Array:
    x = jnp.asarray(x)
    return jnp.isfinite(x) if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.ones(x.shape, jnp.bool_)


def _replace_non_finite(obs: Any) -> Any:
    return jax.tree.map(lambda x: jnp.where(_is_finite(x), x, jnp.zeros_like(x)), obs)
