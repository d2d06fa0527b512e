"""Wrappers that count the steps of an episode: `TimeLimit` and `TimeAwareObservation`."""

from typing import Any, Generic, cast

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.counts import require_limit
from envrax.agent_values import require_one_agent
from envrax.env import ActSpaceT, AnyEnv, ConfigT, Info, JaxEnv, ObsSpaceT, StateT
from envrax.spaces import Box, Dict, Tuple
from envrax.spaces.base import RETURN_LIKE, require_container
from envrax.spaces.flattening import flat_box, flatten
from envrax.termination import end_if
from envrax.wrappers.base import Wrapper, layers
from envrax.wrappers.stateful import InnerStateT, StatefulWrapper, WrapperState


@chex.dataclass
class TimeState(WrapperState[InnerStateT]):
    """
    State of `TimeLimit`.

    Attributes
    ----------
    elapsed : jax.Array
        int32 scalar, number of steps of this episode, counted by the wrapper.
    """

    elapsed: jax.Array


class TimeLimit(
    StatefulWrapper[ObsSpaceT, ActSpaceT, TimeState[InnerStateT], ConfigT, InnerStateT],
    Generic[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT],
):
    """
    Truncate an episode after `max_steps` steps, and report why each episode ended.

    The wrapper counts the steps itself. `info["terminated"]` and `info["truncated"]` are bools in
    every step. Both are True if the environment terminates in the last step that the limit allows.
    If the environment ends an episode without a reason, its own `at_limit` decides.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    max_steps : int, optional
        Number of steps. Default: `config.max_steps` of the environment, also after `with_config`,
        which leaves a number given here as it is.

    Raises
    ------
    TypeError
        If `max_steps` is not an int, or `env` contains a `RecordEpisodeStatistics`, which would not
        count the episodes that are truncated here.
    ValueError
        If `max_steps` is below 1.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = TimeLimit(CountingEnv(), max_steps=1)
    >>> obs, state = env.reset(jax.random.key(0))
    >>> obs, state, reward, done, info = env.step(state, 0)
    >>> bool(done), bool(info["terminated"]), bool(info["truncated"])
    (True, False, True)
    """

    changes_episodes = True

    def __init__(
        self, env: JaxEnv[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT], max_steps: int | None = None
    ) -> None:
        super().__init__(env)
        limit = env.config.max_steps if max_steps is None else max_steps
        self.max_steps = cast(int, require_limit("TimeLimit: expected max_steps", limit))

    def observe(self, state: TimeState[InnerStateT]) -> Any:
        return self._observe_inner(state.env_state)

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        return obs, {"elapsed": jnp.int32(0)}

    def on_step(
        self,
        obs: Any,
        state: TimeState[InnerStateT],
        reward: jax.Array,
        done: jax.Array,
        info: Info,
    ) -> tuple[Any, ...]:
        elapsed = state.elapsed + 1
        stepped = state.env_state, done, info
        truncated = elapsed >= self.max_steps
        ended, done, info = end_if("TimeLimit.step", self.env, stepped, truncated=truncated)
        return obs, state.replace(elapsed=elapsed, done=ended), reward, done, info

    def at_limit(self, state: TimeState[InnerStateT]) -> jax.Array:
        return (state.elapsed >= self.max_steps) | super().at_limit(state)


class TimeAwareObservation(Wrapper[Any, ActSpaceT, StateT, ConfigT]):
    """
    Add the number of steps so far to the observation.

    A `Dict` observation gains an entry, a `Tuple` observation a last element. Any other observation
    becomes a dict with the keys "obs" and "time". The time has shape (1,).

    The largest time is `max_steps` of the outermost `TimeLimit` inside this wrapper, or else
    `config.max_steps`. The time is what that limit counts: with a `RepeatAction` inside, whose
    steps are several of the environment, it grows by several; and it goes on from a `StartStates`
    inside. Gymnasium requires a `TimeLimit`, and counts the steps of this wrapper.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    flatten : bool, default True
        Flatten the result to one vector, as `FlattenObservation` does.
    normalize_time : bool, default False
        Give the time as float32 in 0..1 instead of an int32 number of steps.
    dict_time_key : str, default "time"
        The key of the time in a `Dict` observation.

    Raises
    ------
    ValueError
        If a `Dict` observation has that key already.
    TypeError
        If `flatten` is True and the observation cannot be flattened, or if the environment has
        several agents.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = TimeAwareObservation(CountingEnv(), flatten=False)
    >>> env.observation_space
    Dict({'obs': Box(0, 1000, (2,), int32), 'time': Box(0, 5, (1,), int32)})
    """

    def __init__(
        self,
        env: JaxEnv[Any, ActSpaceT, StateT, ConfigT],
        flatten: bool = True,
        normalize_time: bool = False,
        *,
        dict_time_key: str = "time",
    ) -> None:
        super().__init__(env)
        require_one_agent("TimeAwareObservation", env)
        self.flatten = flatten
        self.normalize_time = normalize_time
        self.dict_time_key = dict_time_key
        space: Any = env.observation_space
        if isinstance(space, Dict) and dict_time_key in list(space):
            raise ValueError(
                f"TimeAwareObservation: expected observations without the key {dict_time_key!r}; "
                f"got {space}. Pass another `dict_time_key`."
            )
        self._max_time = limit_of(env)
        time = Box(0.0, 1.0, (1,)) if normalize_time else Box(0, self._max_time, (1,), jnp.int32)
        full = self._joined(getattr(space, "spaces", space), time)
        self._full_space = Tuple(full) if isinstance(full, tuple) else Dict(full)
        try:
            self._space = flat_box(self._full_space) if flatten else self._full_space
        except TypeError as error:
            raise TypeError(f"TimeAwareObservation: {error} Pass `flatten=False`.") from error

    @property
    def observation_space(self) -> Any:
        return self._space

    def on_episode_start(self, obs: Any, state: Any) -> tuple[Any, StateT]:
        obs, state = super().on_episode_start(obs, state)
        return self._with_time(obs, state), state

    def step(self, state: StateT, action: Any) -> tuple[Any, StateT, jax.Array, jax.Array, Info]:
        obs, state, reward, done, info = super().step(state, action)
        return self._with_time(obs, state), state, reward, done, info

    def observe(self, state: StateT) -> Any:
        obs = self._observe_inner(state)
        return None if obs is None else self._with_time(obs, state)

    def _with_time(self, obs: Any, state: StateT) -> Any:
        time = jnp.asarray(counted_steps(self.env, state), jnp.int32)[None]
        if self.normalize_time:
            time = time.astype(jnp.float32) / np.float32(self._max_time)
        full_obs = self._joined(obs, time)
        return flatten(self._full_space, full_obs) if self.flatten else full_obs

    def _joined(self, obs: Any, time: Any) -> Any:
        """An observation with the time, or their spaces, in a dict or tuple."""
        space = self.env.observation_space
        if isinstance(space, Dict | Tuple):
            require_container(space.spaces, obs, "TimeAwareObservation", "obs", RETURN_LIKE)
        if isinstance(space, Dict):
            return {**obs, self.dict_time_key: time}
        if isinstance(space, Tuple):
            return (*obs, time)
        return {"obs": obs, "time": time}


def limit_of(env: AnyEnv) -> int:
    """`max_steps` of the outermost `TimeLimit`, or else of the config."""
    limits = (layer.max_steps for layer in layers(env) if isinstance(layer, TimeLimit))
    return next(limits, env.config.max_steps)


def counted_steps(env: AnyEnv, state: Any) -> jax.Array:
    """The number of steps that `limit_of` limits, in a state of `env`, or of a batch of it."""
    for layer in layers(env):
        if isinstance(layer, TimeLimit):
            return state.elapsed
        if isinstance(layer, Wrapper):
            state = cast(Any, layer)._inner(state)
    return state.step


def with_counted_steps(env: AnyEnv, state: Any, steps: jax.Array) -> Any:
    """The state with another number of steps in place of `counted_steps`."""
    if isinstance(env, TimeLimit):
        return state.replace(elapsed=steps)
    if not any(isinstance(layer, TimeLimit) for layer in layers(env)):
        # The count of the wrapped environment may be larger, as in a `StartStates`.
        return state.replace(step=state.step + steps - counted_steps(env, state))
    inner: AnyEnv = cast(Any, env).env
    if isinstance(env, StatefulWrapper):
        return state.replace(env_state=with_counted_steps(inner, state.env_state, steps))
    return with_counted_steps(inner, state, steps)
