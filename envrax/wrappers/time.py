"""Wrappers that count the steps of an episode: `TimeLimit` and `TimeAwareObservation`."""

from typing import Any, Generic

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.counts import INT32_MAX, require_count
from envrax.agent_values import require_one_agent
from envrax.env import ActSpaceT, AnyEnv, ConfigT, Info, JaxEnv, ObsSpaceT
from envrax.spaces import Box, Dict, Tuple
from envrax.spaces.flatten import flat_box, flatten
from envrax.termination import episode_end
from envrax.wrappers.base import layers, with_end
from envrax.wrappers.episode import require_no_statistics
from envrax.wrappers.stateful import InnerStateT, StatefulWrapper, WrapperState


@chex.dataclass
class TimeState(WrapperState[InnerStateT]):
    """
    State of `TimeLimit` and of `TimeAwareObservation`.

    Attributes
    ----------
    elapsed : jax.Array
        int32 scalar, steps of this episode, as the wrapper counts them.
    """

    elapsed: jax.Array


class TimeLimit(
    StatefulWrapper[ObsSpaceT, ActSpaceT, TimeState[InnerStateT], ConfigT, InnerStateT],
    Generic[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT],
):
    """
    Truncate an episode after `max_steps` steps, and report why each episode ended.

    The wrapper counts the steps itself. `info["terminated"]` and `info["truncated"]` are bools in
    every step; both are True if the environment ends its episode in the last step that the limit
    allows. An end without a reason counts as a termination.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    max_steps : int, optional
        Number of steps. By default `config.max_steps` of the environment.

    Raises
    ------
    TypeError
        If `max_steps` is not an int, or there is a `RecordEpisodeStatistics` beneath, which would
        not count the episodes that are truncated here.
    ValueError
        If it is below 1.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = TimeLimit(CountingEnv(), max_steps=1)
    >>> obs, state = env.reset(jax.random.key(0))
    >>> obs, state, reward, done, info = env.step(state, 0)
    >>> bool(done), bool(info["terminated"]), bool(info["truncated"])
    (True, False, True)
    """

    def __init__(
        self, env: JaxEnv[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT], max_steps: int | None = None
    ) -> None:
        super().__init__(env)
        require_no_statistics(type(self), env)
        limit = env.config.max_steps if max_steps is None else max_steps
        # An int32 counts up to it: `sys.maxsize` stands for no limit.
        self.max_steps = min(require_count("TimeLimit: expected max_steps", limit), INT32_MAX)

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
        over, ended = elapsed >= self.max_steps, state.done
        terminated, truncated = episode_end("TimeLimit.step", (), ended, info)
        info = {**info, "terminated": terminated, "truncated": truncated | over}
        state = state.replace(elapsed=elapsed, done=ended | over)
        return obs, state, reward, with_end(done, over), info


class TimeAwareObservation(
    StatefulWrapper[Any, ActSpaceT, TimeState[InnerStateT], ConfigT, InnerStateT],
    Generic[ActSpaceT, InnerStateT, ConfigT],
):
    """
    Add the number of steps of the episode to the observation.

    A `Dict` observation gains an entry, a `Tuple` one a last element; any other becomes a dict with
    the keys "obs" and "time". The time has shape (1,).

    The largest time is `max_steps` of the outermost `TimeLimit` beneath, or else
    `config.max_steps`. Gymnasium wants a `TimeLimit`.

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
        If `flatten` is set, but the observation cannot be flattened; or for a world of several
        agents.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = TimeAwareObservation(CountingEnv(), flatten=False)
    >>> env.observation_space
    Dict({'obs': Box(0, 1000, (2,), int32), 'time': Box(0, 5, (1,), int32)})
    """

    def __init__(
        self,
        env: JaxEnv[Any, ActSpaceT, InnerStateT, ConfigT],
        flatten: bool = True,
        normalize_time: bool = False,
        *,
        dict_time_key: str = "time",
    ) -> None:
        super().__init__(env)
        require_one_agent("TimeAwareObservation", env)
        self.flatten, self.normalize_time = flatten, normalize_time
        self.dict_time_key = dict_time_key
        space: Any = env.observation_space
        if isinstance(space, Dict) and dict_time_key in list(space):
            raise ValueError(
                f"TimeAwareObservation: expected observations without the key {dict_time_key!r}; "
                f"got {space}. Pass another `dict_time_key`."
            )
        self._most = limit_of(env)
        time = Box(0.0, 1.0, (1,)) if normalize_time else Box(0, self._most, (1,), jnp.int32)
        if isinstance(space, Dict):
            self._whole = Dict({**space.spaces, dict_time_key: time})
        elif isinstance(space, Tuple):
            self._whole = Tuple((*space, time))
        else:
            self._whole = Dict(obs=space, time=time)
        try:
            self._space = flat_box(self._whole) if flatten else self._whole
        except TypeError as error:
            raise TypeError(f"TimeAwareObservation: {error} Pass `flatten=False`.") from error

    @property
    def observation_space(self) -> Any:
        return self._space

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        elapsed = jnp.int32(0)
        return self._with_time(obs, elapsed), {"elapsed": elapsed}

    def on_step(self, obs: Any, state: TimeState[InnerStateT], *rest: Any) -> tuple[Any, ...]:
        elapsed = state.elapsed + 1
        return self._with_time(obs, elapsed), state.replace(elapsed=elapsed), *rest

    def _with_time(self, obs: Any, elapsed: jax.Array) -> Any:
        time = elapsed[None]
        if self.normalize_time:
            time = time.astype(jnp.float32) / np.float32(self._most)
        if isinstance(self.env.observation_space, Dict):
            whole: Any = {**obs, self.dict_time_key: time}
        elif isinstance(self.env.observation_space, Tuple):
            whole = (*obs, time)
        else:
            whole = {"obs": obs, "time": time}
        return flatten(self._whole, whole) if self.flatten else whole


def limit_of(env: AnyEnv) -> int:
    """The limit of the outermost `TimeLimit`, or else that of the config."""
    limits = (layer.max_steps for layer in layers(env) if isinstance(layer, TimeLimit))
    return min(next(limits, env.config.max_steps), INT32_MAX)
