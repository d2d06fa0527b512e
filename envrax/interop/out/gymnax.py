"""`to_gymnax`: an environment with the functional protocol of gymnax."""

import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from envrax.autoreset.slot import checked_step
from envrax.env import AnyEnv
from envrax.interop.out import auto_reset
from envrax.interop.out.auto_reset import Bridge, require_single, with_mask
from envrax.interop.out.gymnax_params import GymnaxParams, StaticChanges, apply_changes, params_of
from envrax.interop.out.rewards import require_reward_shape
from envrax.spaces import Box, Dict, Discrete, Space, Tuple
from envrax.termination import end_of_step, with_reasons
from envrax.wrappers import RecordEpisodeStatistics
from envrax.wrappers.base import layers


class GymnaxState(NamedTuple):
    """
    State of an environment of `to_gymnax`.

    Attributes
    ----------
    env_state : EnvState
        State of the environment.
    returned : dict of jax.Array, or None
        Return and length of the last episode that ended, where the environment records statistics.
    """

    env_state: Any
    returned: Any = None


class ToGymnax(Bridge):
    """The result of `to_gymnax`, with the methods of `gymnax.environments.Environment`."""

    def __init__(self, env: AnyEnv, version: int) -> None:
        self.env = env
        self.version = version
        self.default_params = params_of(env)
        self._has_statistics = any(isinstance(x, RecordEpisodeStatistics) for x in layers(env))
        # Only the changed fields are arguments: the others are constants of the program.
        self._reset: Any = jax.jit(self._reset_with, static_argnums=1)
        self._step: Any = jax.jit(self._step_with, static_argnums=2)

    @property
    def name(self) -> str:
        """The name of the environment."""
        return self.env.name

    @property
    def num_actions(self) -> int:
        """The number of actions of a `Discrete`; of another space, the size of an action."""
        space: Any = self.env.action_space
        return space.n if isinstance(space, Discrete) else space.size

    def observation_space(self, params: Any = None) -> Any:
        """gymnax's class of the space where gymnax is loaded, else envrax's own."""
        return _space(self._with_static(params).observation_space)

    def action_space(self, params: Any = None) -> Any:
        """gymnax's class of the space where gymnax is loaded, else envrax's own."""
        return _space(self._with_static(params).action_space)

    def reset(self, key: jax.Array, params: Any = None) -> tuple[Any, GymnaxState]:
        """Begin an episode."""
        return self._reset(key, *self._changes(params))

    def step(self, key: jax.Array, state: GymnaxState, action: Any, params: Any = None) -> Any:
        """
        Take one step; where the episode ends, begin the next one. `key` is not used.

        Returns
        -------
        obs, state, reward, done, info
            For version 0; for version 1 `terminated, truncated` in place of `done`. `info` has
            these two, `final_observation`, where there are masks `action_mask`, for the next step,
            and `final_mask`, of the state of `final_observation`, and `returned_episode`,
            `returned_episode_returns` and `returned_episode_lengths` where statistics are recorded.
        """
        return self._step(state, action, *self._changes(params))

    def reset_env(self, key: jax.Array, params: Any = None) -> tuple[Any, GymnaxState]:
        """Begin an episode, as `reset`."""
        return self.reset(key, params)

    def step_env(self, key: jax.Array, state: GymnaxState, action: Any, params: Any = None) -> Any:
        """Take one step without auto-reset: obs, state, reward, done or terminated, info."""
        env = self._with(params)
        obs, env_state, reward, _, info = checked_step(env, state.env_state, action)
        who = "to_gymnax(env).step_env"
        require_reward_shape(who, reward, ())
        end = end_of_step(who, env, env_state, info)
        info = with_mask(env, env_state, with_reasons(info, end))
        flag = end.terminated if self.version else end.done
        return obs, state._replace(env_state=env_state), reward, flag, info

    def _with(self, params: Any) -> AnyEnv:
        return apply_changes(self.env, *self._changes(params))

    def _with_static(self, params: Any) -> AnyEnv:
        """The environment with the static fields of `params`, the only ones that spaces read."""
        static, _ = self._changes(params)
        return apply_changes(self.env, static, {})

    def _changes(self, params: Any) -> tuple[StaticChanges, dict[str, Any]]:
        if params is None or params is self.default_params:
            return (), {}
        if not isinstance(params, GymnaxParams):
            raise TypeError(
                f"to_gymnax: expected params of this environment; got a {type(params).__name__}. "
                "Pass `env.default_params`, or a `replace` of them."
            )
        return params.changes(self.default_params)

    def _reset_with(
        self, key: jax.Array, static: StaticChanges, traced: dict[str, Any]
    ) -> tuple[Any, GymnaxState]:
        obs, state = auto_reset.reset(apply_changes(self.env, static, traced), key)
        zeros = {"returns": jnp.float32(0), "lengths": jnp.int32(0)}
        return obs, GymnaxState(state, zeros if self._has_statistics else None)

    def _step_with(
        self, state: GymnaxState, action: Any, static: StaticChanges, traced: dict[str, Any]
    ) -> Any:
        env = apply_changes(self.env, static, traced)
        space = env.action_space
        if isinstance(space, Box) and jnp.size(action) == space.size:
            action = jnp.reshape(action, space.shape)  # rejax leaves out an axis of 1
        out = auto_reset.step("to_gymnax(env).step", env, state.env_state, action)
        info = {**out.info, "final_observation": out.final_obs}
        returned = state.returned
        if self._has_statistics:
            last = {"returns": info["episode"]["r"], "lengths": info["episode"]["l"]}
            # Inside an `EpisodicLife`, the statistics count games.
            ended = last["lengths"] > 0
            returned = {k: jnp.where(ended, last[k], x) for k, x in returned.items()}
            info |= {f"returned_episode_{k}": x for k, x in returned.items()}
            info["returned_episode"] = ended
        ends = (out.terminated, out.truncated) if self.version else (out.done,)
        return out.obs, GymnaxState(out.state, returned), out.reward, *ends, info

    def __reduce__(self) -> tuple[Any, ...]:  # a copy compiles its own programs
        return type(self), (self.env, self.version)

    def __repr__(self) -> str:
        return f"to_gymnax({self.env!r}, version={self.version})"


def to_gymnax(env: AnyEnv, *, version: int = 0) -> ToGymnax:
    """
    An environment with the functional protocol of gymnax, for trainers written for gymnax.

    The trainer maps `reset` and `step` with its own `vmap`. A step that ends an episode begins the
    next one, as in `VecEnv`: only the slots that ended are reset, and the trajectories are those of
    a `VecEnv` with the same reset keys.

    Parameters
    ----------
    env : JaxEnv
        The environment, as `make` returns it.
    version : int, default 0
        0 for `obs, state, reward, done, info`, which PureJaxRL, rejax and all code written before
        gymnax 1.0 expect; 1 for `obs, state, reward, terminated, truncated, info`.

    Returns
    -------
    ToGymnax
        A hashable object, which `jit` takes as a static argument. `default_params` are the numeric
        fields of the config; changed values may be traced, or mapped over. An argument of a
        trainer's own `jit` is traced, which may round differently from a constant.

    Raises
    ------
    TypeError
        If `env` is not one environment that JAX can trace.
    ValueError
        If `version` is neither 0 nor 1.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = to_gymnax(CountingEnv())
    >>> obs, state = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 4))
    >>> params = env.default_params.replace(max_steps_in_episode=3)
    """
    require_single("to_gymnax", env)
    if version not in (0, 1):
        raise ValueError(f"to_gymnax: expected version 0 or 1; got {version!r}. Leave it out.")
    return ToGymnax(env, version)


def _space(space: Space) -> Any:
    # Trainers that check the class of a space have loaded gymnax.
    gymnax_spaces = sys.modules.get("gymnax.environments.spaces")
    match space:
        case _ if gymnax_spaces is None:
            return space
        case Discrete():
            return gymnax_spaces.Discrete(space.n)
        case Box():
            return gymnax_spaces.Box(space.low, space.high, space.shape, space.dtype)
        case Dict():
            return gymnax_spaces.Dict({name: _space(child) for name, child in space.spaces.items()})
        case Tuple():
            return gymnax_spaces.Tuple([_space(child) for child in space.spaces])
        case _:
            return space
