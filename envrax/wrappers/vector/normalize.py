"""`NormalizeObservation` and `NormalizeReward`: normalise by running statistics of a batch."""

from typing import Any, cast

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax.agent_values import by_agent
from envrax.batched_env import BatchedEnv, StepOptions
from envrax.env import ActSpaceT, AnyEnv, Info, ObsSpaceT
from envrax.spaces import Box, Dict, Space, Tuple
from envrax.termination import episode_end
from envrax.wrappers.dict_observation import entry_space, get_entry, replace_entry
from envrax.wrappers.vector.base import BatchedWrapper, BatchedWrapperState
from envrax.wrappers.vector.statistics import F32, RunningStatistics, require_statistics


@chex.dataclass
class NormalizedState(BatchedWrapperState):
    """
    State of `NormalizeObservation`.

    Attributes
    ----------
    statistics : RunningStatistics
        Statistics of all observations since the reset, over all slots.
    """

    statistics: RunningStatistics


@chex.dataclass
class NormalizedRewardState(NormalizedState):
    """
    State of `NormalizeReward`.

    Attributes
    ----------
    statistics : RunningStatistics
        Statistics of all discounted returns since the reset, over all slots.
    returns : jax.Array
        float32[n_slots], the discounted return of the current episode in every slot. In a
        multi-agent environment, a dict with one array for each agent.
    """

    returns: Any


class _Normalize(BatchedWrapper[ObsSpaceT, ActSpaceT]):
    """Base class of both wrappers: checks the keywords and makes the first statistics."""

    def _configure(
        self, epsilon: float, frozen: bool, statistics: RunningStatistics | None
    ) -> None:
        who = type(self).__name__
        self.epsilon = float(epsilon)
        least, greatest = np.finfo(np.float32).tiny, np.finfo(np.float32).max
        if not least <= self.epsilon <= greatest:
            raise ValueError(f"{who}: expected epsilon above 0, as a float32; got {epsilon}.")
        self._frozen = bool(frozen)
        self.statistics = statistics
        if statistics is None and frozen:
            raise ValueError(f"{who}: expected `statistics` with `frozen=True`; got None.")
        if statistics is not None:
            require_statistics(who, statistics, self._zeros(np.zeros))

    @property
    def frozen(self) -> bool:
        """Whether the statistics are fixed. Read-only, because it is compiled in."""
        return self._frozen

    def _zeros(self, zeros: Any) -> Any:
        raise NotImplementedError

    def _first_statistics(self) -> RunningStatistics:
        if self.statistics is not None:
            return self.statistics
        mean = self._zeros(jnp.zeros)
        var = self._zeros(jnp.ones)
        return RunningStatistics.of(1e-4, mean, var)

    @property
    def copied_env(self) -> AnyEnv | None:
        return super().copied_env if self.frozen else None  # running statistics mix the slots

    def _update(
        self, statistics: RunningStatistics, batch: Any, where: Any = None
    ) -> RunningStatistics:
        return statistics if self.frozen else statistics.update(batch, where)


class NormalizeObservation(_Normalize[Space, ActSpaceT]):
    """
    Normalise observations by their running mean and standard deviation.

    There is a mean and a variance for each element of an observation, over all slots and all
    observations since the reset. Each observation updates them before it is normalised. They start
    at mean 0, variance 1 and count 1e-4, as in Gymnasium. `infos["final_obs"]` is normalised too,
    but does not update them.

    The statistics are a field of the state, `state.statistics`, so they are saved and restored with
    it. A `reset` starts again from the keyword `statistics`. To keep the current ones, write
    `state.replace(statistics=old_state.statistics)`, or do not call `reset`: a batch resets its
    slots itself.

    A NaN in an observation stays in the statistics. `NanGuard` inside the batch prevents this.

    Parameters
    ----------
    env : BatchedEnv
        The batch. Its observations, or their entry `key`, are in a `Box`, or in a `Dict` or `Tuple`
        of them.
    epsilon : float, default 1e-8
        Added to the variance.
    key : str, optional
        The entry of a `Dict` observation to normalise. All other entries are unchanged.
    clip : float, optional
        Clip the normalised values to `-clip` .. `clip`, which become the bounds of the space.
    frozen : bool, default False
        Normalise by `statistics`, which is then required, and do not update them. For evaluation.
    statistics : RunningStatistics, optional
        The statistics to start from, such as `state.statistics` of a training run. They may be
        traced.

    Raises
    ------
    TypeError
        If the observations are in another space, or `statistics` is not a `RunningStatistics`.
    ValueError
        If there is no such key, `epsilon` or `clip` is not above 0, `statistics` have another
        shape, or `frozen` is True without `statistics`.
    """

    state_class = NormalizedState

    def __init__(
        self,
        env: BatchedEnv[Any, ActSpaceT],
        epsilon: float = 1e-8,
        *,
        key: str | None = None,
        clip: float | None = None,
        frozen: bool = False,
        statistics: RunningStatistics | None = None,
    ) -> None:
        super().__init__(cast(Any, env))
        if clip is not None and not np.finfo(np.float32).tiny <= clip <= np.finfo(np.float32).max:
            raise ValueError(f"NormalizeObservation: expected clip above 0 or None; got {clip}.")
        self.key = key
        self.clip = clip
        space = env.single_observation_space
        self._entry = _normal_space(entry_space(type(self), space, key), clip, env)
        self._space = replace_entry(space, key, self._entry)
        self._configure(epsilon, frozen, statistics)

    def _zeros(self, zeros: Any) -> Any:
        shapes: Any = self._entry.shape
        return jax.tree.map(lambda shape: zeros(shape, F32), shapes, is_leaf=_is_shape)

    @property
    def single_observation_space(self) -> Space:
        return self._space

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        statistics = self._update(self._first_statistics(), get_entry(obs, self.key))
        return self._normalized(statistics, obs), {"statistics": statistics}

    def on_step(
        self, obs: Any, state: Any, rewards: jax.Array, dones: jax.Array, infos: Info, /
    ) -> Any:
        statistics = self._update(state.statistics, get_entry(obs, self.key))
        if "final_obs" in infos:
            infos = {**infos, "final_obs": self._normalized(statistics, infos["final_obs"])}
        obs = self._normalized(statistics, obs)
        state = state.replace(statistics=statistics)
        return obs, state, rewards, dones, infos

    def on_reset_where(self, mask: jax.Array, obs: Any, state: Any, /) -> tuple[Any, Any]:
        statistics = self._update(state.statistics, get_entry(obs, self.key), mask)
        return self._normalized(statistics, obs), state.replace(statistics=statistics)

    def _normalized(self, statistics: RunningStatistics, obs: Any) -> Any:
        values = statistics.normalize(get_entry(obs, self.key), self.epsilon)
        if self.clip is not None:
            limit = F32(self.clip)
            values = jax.tree.map(lambda x: jnp.clip(x, -limit, limit), values)
        return replace_entry(obs, self.key, values)


def _normal_space(space: Space, clip: float | None, env: Any) -> Space:
    """
    The same space, in which every `Box` is float32, from `-clip` to `clip` or without bounds.

    Raises
    ------
    TypeError
        If the space, the observations of `env` or an entry of them, has something else in it.
    """
    if isinstance(space, Dict):
        return Dict({name: _normal_space(entry, clip, env) for name, entry in space.spaces.items()})
    if isinstance(space, Tuple):
        return Tuple([_normal_space(entry, clip, env) for entry in space.spaces])
    if not isinstance(space, Box):
        raise TypeError(
            f"NormalizeObservation: expected observations in a Box, or in a Dict or Tuple of them; "
            f"got {space} of {env}. Normalise one entry with `key=`, or remove that entry with a "
            "wrapper inside the batch."
        )
    limit = jnp.inf if clip is None else clip
    return Box(-limit, limit, space.shape)


class NormalizeReward(_Normalize[ObsSpaceT, ActSpaceT]):
    """
    Divide rewards by the running standard deviation of the discounted return.

    In every slot, each step sets the return to `gamma * return + reward`. It starts at 0 in each
    episode. As in Gymnasium, a step that terminates an episode sets it to the reward only. The
    statistics are over the returns of all slots after every step. In a multi-agent environment,
    each agent has its own statistics. The infos have `terminated` and `truncated`.

    The statistics are a field of the state, `state.statistics`, as in `NormalizeObservation`.

    Parameters
    ----------
    env : BatchedEnv
        The batch. Its rewards and dones have shape `(n_slots,)`; dones are bool.
    gamma : float, default 0.99
        The discount, from 0 to 1.
    epsilon : float, default 1e-8
        Added to the variance.
    frozen : bool, default False
        Normalise by `statistics`, which is then required, and do not update them. For evaluation.
    statistics : RunningStatistics, optional
        The statistics to start from, such as `state.statistics` of a training run. They may be
        traced.

    Raises
    ------
    TypeError
        If `statistics` is not a `RunningStatistics`; or at the first step, if rewards or dones have
        another shape, or dones are not bool.
    ValueError
        If `gamma` is not from 0 to 1, `epsilon` is not above 0, `statistics` have another shape, or
        `frozen` is True without `statistics`.
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

    def _step_slots(self, state: Any, actions: Any, options: StepOptions) -> Any:
        return super()._step_slots(state, actions, options._replace(reasons=True))

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        returns = by_agent(self, jnp.zeros((self.n_slots,), F32))
        return obs, {"statistics": self._first_statistics(), "returns": returns}

    def on_step(
        self, obs: Any, state: Any, rewards: jax.Array, dones: jax.Array, infos: Info, /
    ) -> Any:
        who = "NormalizeReward.step"
        shape = (self.n_slots,)
        for x in jax.tree.leaves(rewards):
            if x.shape != shape:
                raise TypeError(
                    f"{who}: expected rewards of shape {shape}; got {x.shape}. Leave out the "
                    "wrapper that changes the shape, such as `ExpandDims`."
                )
        terminated = episode_end(who, shape, dones, infos).terminated
        rewards = jax.tree.map(lambda x: x.astype(F32), rewards)

        def add(returns: jax.Array, reward: jax.Array) -> jax.Array:
            return jnp.where(terminated, F32(0), returns * F32(self.gamma)) + reward

        def scale(reward: jax.Array, var: jax.Array) -> jax.Array:
            return reward / jnp.sqrt(var + F32(self.epsilon))

        returns = jax.tree.map(add, state.returns, rewards)
        statistics = self._update(state.statistics, returns)
        rewards = jax.tree.map(scale, rewards, statistics.var)
        returns = jax.tree.map(lambda x: jnp.where(dones, F32(0), x), returns)
        return obs, state.replace(statistics=statistics, returns=returns), rewards, dones, infos

    def on_reset_where(self, mask: jax.Array, obs: Any, state: Any, /) -> tuple[Any, Any]:
        returns = jax.tree.map(lambda x: jnp.where(mask, F32(0), x), state.returns)
        return obs, state.replace(returns=returns)


def _is_shape(x: Any) -> bool:
    """Whether `x` is one shape, not a `Tuple` or `Dict` of shapes."""
    return isinstance(x, tuple) and all(isinstance(n, int) for n in cast(Any, x))
