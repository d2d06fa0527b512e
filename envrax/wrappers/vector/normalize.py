"""`NormalizeObservation` and `NormalizeReward`: by running statistics of a batch."""

from typing import Any, cast

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax.agent_values import by_agent
from envrax.batched_env import BatchedEnv
from envrax.env import ActSpaceT, Info, ObsSpaceT
from envrax.spaces import Box, Dict, Space, Tuple
from envrax.termination import episode_end
from envrax.wrappers.vector.base import BatchedWrapper, BatchedWrapperState
from envrax.wrappers.vector.statistics import F32, RunningStatistics


@chex.dataclass
class NormalizedState(BatchedWrapperState):
    """
    State of `NormalizeObservation`.

    Attributes
    ----------
    statistics : RunningStatistics
        Of all observations since the reset, all slots together.
    """

    statistics: RunningStatistics


@chex.dataclass
class NormalizedRewardState(NormalizedState):
    """
    State of `NormalizeReward`.

    Attributes
    ----------
    statistics : RunningStatistics
        Of all discounted returns since the reset, all slots together.
    returns : jax.Array
        float32[n_slots], the discounted return of the running episode in every slot.
    """

    returns: Any


class _Normalize(BatchedWrapper[ObsSpaceT, ActSpaceT]):
    """The base of both: the keywords, and the first statistics."""

    def _configure(
        self, epsilon: float, frozen: bool, statistics: RunningStatistics | None
    ) -> None:
        who = type(self).__name__
        self.epsilon = float(epsilon)
        if self.epsilon <= 0:
            raise ValueError(f"{who}: expected epsilon above 0; got {epsilon}.")
        self._frozen = bool(frozen)
        self.statistics = statistics
        if statistics is None and frozen:
            raise ValueError(f"{who}: expected `statistics` with `frozen=True`; got none.")
        if statistics is None:
            return
        if not isinstance(cast(Any, statistics), RunningStatistics):
            raise TypeError(
                f"{who}: expected statistics to be a RunningStatistics; got "
                f"{repr(statistics)[:60]}. Pass `state.statistics`, or "
                "`RunningStatistics.of(count, mean, var)`."
            )
        given, like = (jax.tree.map(np.shape, x) for x in (statistics.mean, self._zeros(np.zeros)))
        if given != like or np.shape(statistics.count):
            raise ValueError(
                f"{who}: expected statistics of shape {like}; got {given}. Take those of a batch "
                "with the same single observation space."
            )

    @property
    def frozen(self) -> bool:
        """Whether the statistics are fixed. It cannot be set, since it is compiled in."""
        return self._frozen

    def _zeros(self, zeros: Any) -> Any:
        raise NotImplementedError

    def _first_statistics(self) -> RunningStatistics:
        if self.statistics is not None:
            return self.statistics
        mean = self._zeros(jnp.zeros)
        var = self._zeros(jnp.ones)
        return RunningStatistics.of(1e-4, mean, var)

    def _counted(self, statistics: RunningStatistics, batch: Any) -> RunningStatistics:
        return statistics if self.frozen else statistics.update(batch)


class NormalizeObservation(_Normalize[Space, ActSpaceT]):
    """
    Normalise observations by their running mean and standard deviation.

    The statistics are elementwise, over all slots and every observation that `reset` and `step`
    returned since the reset; each updates them before it is normalised. They start at mean 0,
    variance 1 and count 1e-4, as in Gymnasium. `infos["final_obs"]` is normalised too, but does not
    update them.

    They are part of the state, `state.statistics`, so they are saved and restored with it. A
    `reset` starts again from `statistics`; to keep the current ones, write
    `state.replace(statistics=old_state.statistics)`, or do not reset: a batch resets its slots.

    A NaN in an observation stays in the statistics; `NanGuard` within the batch keeps it out.

    Parameters
    ----------
    env : BatchedEnv
        The batch. Its observations are a `Box` of numbers, or a `Dict` or `Tuple` of such.
    epsilon : float, default 1e-8
        Added to the variance.
    frozen : bool, default False
        Use `statistics`, which must be given, and do not change them: for evaluation.
    statistics : RunningStatistics, optional
        Where to begin, such as `state.statistics` of the training. They may be traced.

    Raises
    ------
    TypeError
        If the observations are of another space, or `statistics` is not a `RunningStatistics`.
    ValueError
        If `epsilon` is not above 0, or `statistics` are of another shape.
    """

    state_class = NormalizedState

    def __init__(
        self,
        env: BatchedEnv[Any, ActSpaceT],
        epsilon: float = 1e-8,
        *,
        frozen: bool = False,
        statistics: RunningStatistics | None = None,
    ) -> None:
        super().__init__(cast(Any, env))
        self._space = _unbounded(env.single_observation_space, env)
        self._configure(epsilon, frozen, statistics)

    def _zeros(self, zeros: Any) -> Any:
        shapes: Any = self._space.shape
        return jax.tree.map(lambda shape: zeros(shape, F32), shapes, is_leaf=_is_shape)

    @property
    def single_observation_space(self) -> Space:
        return self._space

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        statistics = self._counted(self._first_statistics(), obs)
        return statistics.normalize(obs, self.epsilon), {"statistics": statistics}

    def on_step(
        self, obs: Any, state: Any, rewards: jax.Array, dones: jax.Array, infos: Info, /
    ) -> Any:
        statistics = self._counted(state.statistics, obs)
        if "final_obs" in infos:
            last = statistics.normalize(infos["final_obs"], self.epsilon)
            infos = {**infos, "final_obs": last}
        obs = statistics.normalize(obs, self.epsilon)
        state = state.replace(statistics=statistics)
        return obs, state, rewards, dones, infos


class NormalizeReward(_Normalize[ObsSpaceT, ActSpaceT]):
    """
    Divide rewards by the running standard deviation of the discounted return.

    In a world of several agents, each has its own statistics.

    In every slot the return is `gamma * return + reward`, and starts again with each episode. As in
    Gymnasium, after a step that terminates an episode it is the reward alone. The statistics are
    over the returns of all slots after every step.

    They are part of the state, `state.statistics`, as with `NormalizeObservation`.

    Parameters
    ----------
    env : BatchedEnv
        The batch. Its rewards and dones have shape `(n_slots,)`; dones are bool.
    gamma : float, default 0.99
        The discount, from 0 to 1.
    epsilon : float, default 1e-8
        Added to the variance.
    frozen : bool, default False
        Use `statistics`, which must be given, and do not change them: for evaluation.
    statistics : RunningStatistics, optional
        Where to begin, such as `state.statistics` of the training. They may be traced.

    Raises
    ------
    TypeError
        If `statistics` is not a `RunningStatistics`; at the first step, if rewards or dones differ.
    ValueError
        If `gamma` is not from 0 to 1, `epsilon` is not above 0, or `statistics` are of another
        shape.
    """

    state_class = NormalizedRewardState

    def __init__(
        self,
        env: BatchedEnv[ObsSpaceT, ActSpaceT],
        gamma: float = 0.99,
        epsilon: float = 1e-8,
        *,
        frozen: bool = False,
        statistics: RunningStatistics | None = None,
    ) -> None:
        super().__init__(env)
        self.gamma = float(gamma)
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"NormalizeReward: expected gamma from 0 to 1; got {gamma}.")
        self._configure(epsilon, frozen, statistics)

    def _zeros(self, zeros: Any) -> Any:
        return by_agent(self, zeros((), F32))

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        returns = by_agent(self, jnp.zeros((self.n_slots,), F32))
        return obs, {"statistics": self._first_statistics(), "returns": returns}

    def on_step(
        self, obs: Any, state: Any, rewards: jax.Array, dones: jax.Array, infos: Info, /
    ) -> Any:
        who, slots = "NormalizeReward.step", (self.n_slots,)
        for x in jax.tree.leaves(rewards):
            if x.shape != slots:
                raise TypeError(
                    f"{who}: expected rewards of shape {slots}; got {x.shape}. Leave out the "
                    "wrapper that changes it, such as `ExpandDims`."
                )
        ended, _ = episode_end(who, slots, dones, infos)
        rewards = jax.tree.map(lambda x: x.astype(F32), rewards)

        def added(returns: jax.Array, reward: jax.Array) -> jax.Array:
            return jnp.where(ended, F32(0), returns * F32(self.gamma)) + reward

        def scaled(reward: jax.Array, var: jax.Array) -> jax.Array:
            return reward / jnp.sqrt(var + F32(self.epsilon))

        returns = jax.tree.map(added, state.returns, rewards)
        statistics = self._counted(state.statistics, returns)
        rewards = jax.tree.map(scaled, rewards, statistics.var)
        returns = jax.tree.map(lambda x: jnp.where(dones, F32(0), x), returns)
        return obs, state.replace(statistics=statistics, returns=returns), rewards, dones, infos


def _unbounded(space: Space, env: Any) -> Space:
    """The space of the same form in which every `Box` is float32 without bounds."""
    if isinstance(space, Dict):
        return Dict({name: _unbounded(one, env) for name, one in space.spaces.items()})
    if isinstance(space, Tuple):
        return Tuple([_unbounded(one, env) for one in space.spaces])
    if not isinstance(space, Box):
        raise TypeError(
            f"NormalizeObservation: expected observations that are a Box, or a Dict or Tuple of "
            f"them; got {space} of {env}. Leave out that entry with a wrapper within the batch."
        )
    return Box(-jnp.inf, jnp.inf, space.shape)


def _is_shape(x: Any) -> bool:
    """Whether it is one shape, and no `Tuple` or `Dict` of shapes."""
    return isinstance(x, tuple) and all(isinstance(n, int) for n in cast(Any, x))
