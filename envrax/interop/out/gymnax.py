"""`to_gymnax`: an environment with the functional protocol of gymnax."""

import dataclasses
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.names import suggestion
from envrax._jax.types import strip_weak_type
from envrax.autoreset.slot import step_slot
from envrax.env import AnyEnv, with_config
from envrax.interop.base import PeerEnv
from envrax.interop.out.single import Bridge, begin, require_single, step, with_mask
from envrax.interop.params import numbers_of
from envrax.spaces import Box, Dict, Discrete, Space, Tuple
from envrax.termination import episode_end
from envrax.wrappers import RecordEpisodeStatistics, TimeLimit
from envrax.wrappers.base import layers
from envrax.wrappers.randomization import require_dynamic
from envrax.wrappers.time import limit_of

_LIMIT = "max_steps_in_episode"  # gymnax's name of `max_steps`


@jax.tree_util.register_pytree_node_class
class GymnaxParams:
    """
    The numeric fields of a config as attributes; `max_steps` is `max_steps_in_episode`.

    For an environment of another library, also the library's own numbers that may be traced.

    A pytree of the fields that may be traced. The environment uses the others as static values.
    """

    def __init__(self, traced: dict[str, Any], static: dict[str, Any]) -> None:
        self._traced, self._static = traced, static

    def __getattr__(self, name: str) -> Any:
        fields = {**vars(self).get("_static", {}), **vars(self).get("_traced", {})}
        if name not in fields:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}")
        return fields[name]

    def replace(self, **changes: Any) -> "GymnaxParams":
        """
        A copy with some fields changed.

        Raises
        ------
        TypeError
            If there is no such field.
        """
        known = {**self._traced, **self._static}
        if unknown := [name for name in changes if name not in known]:
            raise TypeError(
                f"{type(self).__name__}.replace: expected fields {', '.join(known)}; got "
                f"{', '.join(unknown)}. {suggestion(unknown, known)}"
            )
        parts = self._traced, self._static
        return GymnaxParams(*({k: changes.get(k, x) for k, x in part.items()} for part in parts))

    def changes(self, default: "GymnaxParams") -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The static fields that differ from `default`, and the others, by the config's names."""

        def changed(own: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
            differ = {name: x for name, x in own.items() if not _is_same(x, others[name])}
            return {"max_steps" if name == _LIMIT else name: x for name, x in differ.items()}

        static = changed(self._static, default._static)
        return tuple(static.items()), changed(self._traced, default._traced)

    def tree_flatten(self) -> tuple[Any, Any]:
        return [*self._traced.values()], (tuple(self._traced), tuple(self._static.items()))

    @classmethod
    def tree_unflatten(cls, names: Any, values: Any) -> "GymnaxParams":
        return cls(dict(zip(names[0], values, strict=True)), dict(names[1]))

    def __repr__(self) -> str:
        every = {**self._traced, **self._static}
        return f"{type(self).__name__}({', '.join(f'{k}={x!r}' for k, x in every.items())})"


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
        self.env, self.version = env, version
        self.default_params = _params(env)
        self._counts = any(isinstance(x, RecordEpisodeStatistics) for x in layers(env))
        # With the changed fields alone as arguments: the others are constants of the program.
        self._reset: Any = jax.jit(self._reset_with, static_argnums=1)
        self._step: Any = jax.jit(self._step_with, static_argnums=2)

    @property
    def name(self) -> str:
        """The name of the environment."""
        return self.env.name

    @property
    def num_actions(self) -> int:
        """The number of actions of a `Discrete`, else of numbers in an action."""
        space: Any = self.env.action_space
        return space.n if isinstance(space, Discrete) else space.size

    def observation_space(self, params: Any = None) -> Any:
        """gymnax's class of the space where gymnax is loaded, else envrax's own."""
        return _space(self.env.observation_space)

    def action_space(self, params: Any = None) -> Any:
        """gymnax's class of the space where gymnax is loaded, else envrax's own."""
        return _space(self.env.action_space)

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
            these two, `final_observation`, `action_mask` where there are masks, and
            `returned_episode`, `returned_episode_returns` and `returned_episode_lengths` where
            statistics are recorded.
        """
        return self._step(state, action, *self._changes(params))

    def reset_env(self, key: jax.Array, params: Any = None) -> tuple[Any, GymnaxState]:
        """Begin an episode, as `reset`."""
        return self.reset(key, params)

    def step_env(self, key: jax.Array, state: GymnaxState, action: Any, params: Any = None) -> Any:
        """Take one step without auto-reset: obs, state, reward, done or terminated, info."""
        env = self._with(*self._changes(params))
        obs, inner, reward, _, info, ended = step_slot(env, state.env_state, action)
        terminated, truncated = episode_end("to_gymnax(env).step_env", (), ended, info)
        info = with_mask(env, inner, {**info, "terminated": terminated, "truncated": truncated})
        done = terminated if self.version else ended
        return obs, state._replace(env_state=inner), reward, done, info

    def _changes(self, params: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if not isinstance(params, GymnaxParams | None):
            raise TypeError(
                f"to_gymnax: expected params of this environment; got a {type(params).__name__}. "
                "Pass `env.default_params`, or a `replace` of them."
            )
        if params is None or params is self.default_params:
            return (), {}
        return params.changes(self.default_params)

    def _with(self, static: tuple[Any, ...], traced: dict[str, Any]) -> AnyEnv:
        """The environment with these fields changed."""
        fields = {**dict(static), **traced}
        known = [field.name for field in dataclasses.fields(self.env.config)]
        library = {name: fields.pop(name) for name in {*fields}.difference(known)}
        fields |= {"params": library} if library else {}
        return with_config(self.env, **fields) if fields else self.env

    def _reset_with(self, key: jax.Array, static: Any, traced: Any) -> tuple[Any, GymnaxState]:
        obs, state = begin(self._with(static, traced), key)
        none = {"returns": jnp.float32(0), "lengths": jnp.int32(0)} if self._counts else None
        return obs, GymnaxState(state, none)

    def _step_with(self, state: GymnaxState, action: Any, static: Any, traced: Any) -> Any:
        env = self._with(static, traced)
        space = self.env.action_space
        if isinstance(space, Box) and jnp.size(action) == space.size:
            action = jnp.reshape(action, space.shape)  # rejax leaves out an axis of 1
        out = step("to_gymnax(env).step", env, state.env_state, action)
        info, returned = {**out.info, "final_observation": out.final_obs}, state.returned
        if self._counts:
            told = {"returns": info["episode"]["r"], "lengths": info["episode"]["l"]}
            returned = {k: jnp.where(out.done, told[k], x) for k, x in returned.items()}
            info |= {f"returned_episode_{k}": x for k, x in returned.items()}
            info["returned_episode"] = out.done
        ends = (out.terminated, out.truncated) if self.version else (out.done,)
        return out.obs, GymnaxState(out.state, returned), out.reward, *ends, info

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
        fields of the config; changed values may be traced, or mapped over. What a trainer's own
        `jit` takes as an argument is traced, which may round differently from a constant.

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


def _params(env: AnyEnv) -> GymnaxParams:
    traced: dict[str, Any] = {}
    static: dict[str, Any] = {}
    if isinstance(env.unwrapped, PeerEnv):
        library = numbers_of(env.unwrapped.params)
        library.pop(_LIMIT, None)
        all_are = _may_be_traced(env, {"params": library})
        for name, value in library.items():
            if all_are or _may_be_traced(env, {"params": {name: value}}):
                traced[name] = value
    for field in dataclasses.fields(env.config):
        value = getattr(env.config, field.name)
        if isinstance(value, bool | int | float | np.generic | np.ndarray | jax.Array):
            name = _LIMIT if field.name == "max_steps" else field.name
            if _may_be_traced(env, {field.name: value}):
                traced[name] = value
            elif isinstance(value, bool | int | float):  # `jit` compares static values
                static[name] = value
    if any(isinstance(layer, TimeLimit) for layer in layers(env)):  # its limit is static
        traced.pop(_LIMIT, None)
        static[_LIMIT] = limit_of(env)
    return GymnaxParams(traced, static)


def _may_be_traced(env: AnyEnv, fields: dict[str, Any]) -> bool:
    try:
        require_dynamic("to_gymnax", env, jax.eval_shape(lambda: strip_weak_type(fields)))
    except Exception:  # whatever an environment raises for a tracer
        return False
    return True


def _is_same(x: Any, default: Any) -> bool:
    is_number = type(x) is type(default) and isinstance(x, bool | int | float)
    return x is default or (is_number and repr(x) == repr(default))


def _space(space: Space) -> Any:
    # Trainers ask for the class, and have loaded gymnax then.
    theirs = sys.modules.get("gymnax.environments.spaces")
    match space:
        case _ if theirs is None:
            return space
        case Discrete():
            return theirs.Discrete(space.n)
        case Box():
            return theirs.Box(space.low, space.high, space.shape, space.dtype)
        case Dict():
            return theirs.Dict({name: _space(child) for name, child in space.spaces.items()})
        case Tuple():
            return theirs.Tuple([_space(child) for child in space.spaces])
        case _:
            return space
