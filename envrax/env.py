"""The environment contract: a pure pair `reset` and `step` over an explicit state."""

import dataclasses
import inspect
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax._closing import Closing
from envrax._compile import Compilation
from envrax._generics import pinned_class
from envrax.spaces import Space


@chex.dataclass
class EnvState:
    """
    Everything that changes while an episode runs: a pytree, carried by the caller.

    Environments extend it with `@chex.dataclass` and fields of their own.

    Attributes
    ----------
    rng : jax.Array
        PRNG key, typed or legacy: the randomness left for the rest of the episode and for the
        reset that follows it.
    step : jax.Array
        int32 scalar, steps taken in this episode.
    done : jax.Array
        bool scalar, True once the episode has ended.
    """

    rng: jax.Array
    step: jax.Array
    done: jax.Array

    if TYPE_CHECKING:  # chex adds it at run time and ships no type information

        def replace(self, **changes: Any) -> Self:
            """A copy with the named fields changed."""
            ...


@chex.dataclass
class EnvConfig:
    """
    What is fixed when an environment is built. Environments extend it with fields of their own.

    Attributes
    ----------
    max_steps : int
        Time limit of an episode, in steps.
    """

    max_steps: int = 1000

    if TYPE_CHECKING:

        def replace(self, **changes: Any) -> Self:
            """A copy with the named fields changed."""
            ...


ObsSpaceT = TypeVar("ObsSpaceT", bound=Space)
ActSpaceT = TypeVar("ActSpaceT", bound=Space)
StateT = TypeVar("StateT", bound=EnvState)
ConfigT = TypeVar("ConfigT", bound=EnvConfig)

Info = dict[str, Any]


class JaxEnv(Closing, ABC, Generic[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    An environment as two pure functions, ready for `jit`, `vmap`, `scan` and `grad`.

    Subclasses pin the four type parameters and write `observation_space`, `action_space`, `reset`
    and `step`; a `render` is welcome.

    Parameters
    ----------
    config : ConfigT, optional
        An instance of the pinned config class or of a subclass is kept as it is. One of a parent
        class is widened: its fields are kept, the others take their defaults. None builds the
        pinned class with its defaults.

    Raises
    ------
    TypeError
        If no config is given and the class pins none, if the config is of an unrelated class, or
        if a required field has no value.
    """

    def __init__(self, config: ConfigT | None = None) -> None:
        _require_decorated(type(self))
        self._config = cast(ConfigT, _resolve_config(type(self), config))

    @property
    def config(self) -> ConfigT:
        """The static configuration."""
        if "_config" not in vars(self):
            who = type(self).__name__
            raise TypeError(
                f"{who}: expected its `__init__` to call that of its base; got an environment "
                "without a config. Begin it with `super().__init__(config)`."
            )
        return self._config

    @property
    def name(self) -> str:
        """The name of the environment's class; a wrapper reports the one it wraps."""
        return type(self).__name__

    @property
    def unwrapped(self) -> "JaxEnv[Any, Any, Any, Any]":
        """The innermost environment; the environment itself if it is no wrapper."""
        return self

    @property
    def traceable(self) -> bool:
        """Whether `reset` and `step` may be traced by JAX; False for stacks that do host work."""
        return True

    @property
    def compilation(self) -> Compilation | None:
        """How a `JitWrapper` in the stack compiles it; None for a stack without one."""
        return None

    @property
    @abstractmethod
    def observation_space(self) -> ObsSpaceT:
        """The space of one observation."""

    @property
    @abstractmethod
    def action_space(self) -> ActSpaceT:
        """The space of one action."""

    @abstractmethod
    def reset(self, rng: jax.Array) -> tuple[Any, StateT]:
        """
        Begin an episode.

        Parameters
        ----------
        rng : jax.Array
            One PRNG key, typed or legacy. It is consumed; what is left goes to `state.rng`.

        Returns
        -------
        obs : pytree of jax.Array
            First observation, an element of `observation_space`.
        state : StateT
            State of the new episode, with `step` 0 and `done` False.
        """

    @abstractmethod
    def step(self, state: StateT, action: Any) -> tuple[Any, StateT, jax.Array, jax.Array, Info]:
        """
        Take one step. It does not reset: `VecEnv` does, or the caller.

        Randomness comes from `state.rng`, split here; a deterministic step leaves it alone.

        Parameters
        ----------
        state : StateT
            State of the episode; it is not changed.
        action : pytree of jax.Array
            An element of `action_space`.

        Returns
        -------
        obs : pytree of jax.Array
            Observation after the step, an element of `observation_space`.
        new_state : StateT
            State after the step, of the same structure, shapes and dtypes as at reset.
        reward : jax.Array
            float32 scalar.
        done : jax.Array
            bool scalar, True if this step ended the episode.
        info : dict
            Extra values, the same keys on every step. An environment that knows why an episode
            ended puts bool scalars under "terminated" and "truncated"; both may be True.
        """

    def render(self, state: StateT) -> np.ndarray:
        """
        Draw a state on the host.

        Parameters
        ----------
        state : StateT
            State of a single environment.

        Returns
        -------
        np.ndarray
            uint8 RGB image of shape (H, W, 3).

        Raises
        ------
        NotImplementedError
            If the environment cannot be drawn.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.render: expected an environment that draws itself; got one "
            "without `render`. Override it and return a uint8 array of shape (H, W, 3)."
        )

    def compile(self) -> None:
        """Compile what a wrapper such as `JitWrapper` compiles; nothing on a base environment."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config})"


def episode_ended(env: JaxEnv[Any, Any, Any, Any], new_state: EnvState, done: Any) -> jax.Array:
    """
    Whether a step of `env` ended its episode.

    True if `new_state.done` is set, or if the returned `done` is a true bool scalar. A wrapper may
    re-type the `done` it returns (a discount, an extra axis); that one is then not looked at.

    Parameters
    ----------
    env : JaxEnv
        The environment that took the step.
    new_state : EnvState
        The state that it returned.
    done : Any
        The `done` that it returned.

    Returns
    -------
    jax.Array
        bool scalar.

    Raises
    ------
    TypeError
        If the state's `done`, or the `done` returned by an environment that is no wrapper, is not
        a bool scalar.
    """
    require_done(env, new_state, done)
    flag, done = jnp.asarray(new_state.done), jnp.asarray(done)
    return flag | done if _is_flag(done) else flag


def require_done(env: JaxEnv[Any, Any, Any, Any], new_state: EnvState, done: Any) -> None:
    """The checks of `episode_ended` alone, for a wrapper that hands everything on as it is."""
    _require_flag(
        jnp.asarray(new_state.done), f"{type(env).__name__}.step: expected new_state.done"
    )
    if env.unwrapped is env:
        _require_flag(jnp.asarray(done), f"{type(env).__name__}.step: expected done")


def _is_flag(x: jax.Array) -> bool:
    return x.shape == () and x.dtype == jnp.bool_


def _require_flag(x: jax.Array, expected: str) -> None:
    if not _is_flag(x):
        raise TypeError(
            f"{expected} of shape (), bool; got {x.shape} {x.dtype}. Return one bool, for example "
            "the result of a comparison, without a cast."
        )


def _require_decorated(cls: type) -> None:
    """A state or config class without its decorator would lose its fields, and be no pytree."""
    for kind, param in (("state", StateT), ("config", ConfigT)):
        pinned = pinned_class(cls, JaxEnv, param)
        if pinned is None or "__dataclass_fields__" in vars(pinned):
            continue
        # A config that adds no field is whole without.
        if kind == "state" or inspect.get_annotations(pinned):
            raise TypeError(
                f"{cls.__name__}: expected its {kind} {pinned.__name__} to be a dataclass; got a "
                "plain class. Write `@chex.dataclass` above it."
            )


def _resolve_config(cls: type, config: Any) -> EnvConfig:
    """Give an environment of class `cls` its config: built, kept or widened."""
    pinned = pinned_class(cls, JaxEnv, ConfigT)
    if config is None:
        if pinned is None:
            raise TypeError(
                f"{cls.__name__} does not pin a concrete type for its config, so that none can be "
                "built. Pass `config=...`, or name the class: `JaxEnv[Box, Discrete, MyState, "
                "MyConfig]`."
            )
        return _build_config(cls, pinned, {})
    expected = pinned or EnvConfig
    if isinstance(config, expected):
        return config
    if isinstance(config, EnvConfig) and issubclass(expected, type(config)):
        given = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
        return _build_config(cls, expected, given)
    got = f"the class {config.__name__}" if isinstance(config, type) else type(config).__name__
    raise TypeError(
        f"{cls.__name__}: expected a config of class {expected.__name__}; got {got}. Pass an "
        f"instance of {expected.__name__}."
    )


def _build_config(cls: type, config_class: type, given: dict[str, Any]) -> EnvConfig:
    missing = [
        field.name
        for field in dataclasses.fields(config_class)
        if field.init
        and field.name not in given
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise TypeError(
            f"{cls.__name__}: expected a config of class {config_class.__name__} with a value for "
            f"each required field; got none for {', '.join(missing)}. Pass a full "
            f"{config_class.__name__}."
        )
    return config_class(**given)
