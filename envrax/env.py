"""The environment interface: two pure functions, `reset` and `step`, over an explicit state."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.marks import adds, hands_on
from envrax._checks.type_parameters import pinned_class
from envrax._jax.at_once import compute_at_once
from envrax.config import (
    Config,
    Replaceable,
    freeze,
    lost_config,
    rebuilt,
    require_decorated,
    resolve_config,
    tells_undecorated,
)
from envrax.spaces import Space


class Resource:
    """An object with `close`, which a `with` statement calls at its end."""

    def close(self) -> None:
        """Free resources on the host, such as files or processes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@tells_undecorated
@chex.dataclass
class EnvState(Replaceable):
    """
    State of an episode: a pytree, which environments extend with `@chex.dataclass`.

    Attributes
    ----------
    rng : jax.Array
        PRNG key for the rest of the episode and for the reset that follows it.
    step : jax.Array
        int32 scalar, steps taken in this episode.
    done : jax.Array
        bool scalar, True once the episode has ended.
    """

    rng: jax.Array
    step: jax.Array
    done: jax.Array


@tells_undecorated
@chex.dataclass
class EnvConfig(Config):
    """
    Static configuration of an environment. Environments extend it with `@chex.dataclass`.

    It takes no `frozen=True`: once an environment has it, setting a field raises an error, also of
    an `EnvConfig` in it, and NumPy arrays in it are read-only copies. `with_config` builds the
    environment with other values. A field declared as `float` holds an int as a float.

    Attributes
    ----------
    max_steps : int
        Time limit of an episode, in steps, at least 1. `2**31 - 1` means no limit, and a larger
        number becomes it. Any other value raises an error. A JAX array stays one, int32, since it
        may be drawn or traced.
    """

    max_steps: int = 1000


ObsSpaceT = TypeVar("ObsSpaceT", bound=Space)
ActSpaceT = TypeVar("ActSpaceT", bound=Space)
StateT = TypeVar("StateT", bound=EnvState)
ConfigT = TypeVar("ConfigT", bound=EnvConfig)
Info = dict[str, Any]


class JaxEnv(Resource, ABC, Generic[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    An environment: pure functions `reset` and `step`, ready for `jit`, `vmap`, `scan` and `grad`.

    A subclass names its four types in the brackets and defines both spaces, `reset` and `step`.

    Parameters
    ----------
    config : ConfigT, optional
        None builds the class named in the brackets. An instance of a parent class keeps its fields,
        and the others take their defaults. An unrelated class raises a TypeError.
    """

    _given_config: Any = False  # until `__init__` is called

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        compute_at_once(cls, "observation_space", "action_space")

    def __init__(self, config: ConfigT | None = None) -> None:
        cls = type(self)
        pinned = pinned_class(type(self), JaxEnv, ConfigT)
        for declared in (pinned_class(cls, JaxEnv, StateT), pinned):
            require_decorated(cls.__name__, declared)
        resolved = resolve_config(cls.__name__, pinned, EnvConfig, config)
        self._config: ConfigT = freeze(resolved)
        self._given_config = config

    @property
    def config(self) -> ConfigT:
        """
        The static configuration, which is not edited: `with_config` builds another environment.

        Setting a field raises an error. Dicts, lists and dataclasses in it are the environment's
        own, copied when it was built: what is edited in them, compiled programs do not see.
        """
        if "_config" not in vars(self):
            raise lost_config(type(self).__name__, type(self))
        if not getattr(self._config, "_frozen", False):  # in a pickle or a deep copy
            self._config = freeze(self._config)
        return self._config

    @property
    def name(self) -> str:
        """The name of the environment's class; a wrapper reports the one it wraps."""
        return type(self).__name__

    @property
    def unwrapped(self) -> "AnyEnv":
        """The innermost environment; the environment itself if it is not a wrapper."""
        return self

    @property
    def traceable(self) -> bool:
        """Whether JAX can trace `reset` and `step`; False if Python code runs at every step."""
        return True

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents of a world of several, in order; `()` for one. See `MultiAgentEnv`."""
        return ()

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
            One PRNG key, typed or legacy. It is split, and the unused part goes to `state.rng`.

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
        Take one step, without auto-reset, which `VecEnv` adds.

        A random step splits `state.rng`; a deterministic one leaves it unchanged.

        Parameters
        ----------
        state : StateT
            State before the step. It is not modified.
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
            Extra values, the same keys on every step. "terminated" and "truncated", if present,
            are bool scalars: why the episode ended. Both may be True. Without them, an end is a
            truncation where `at_limit(new_state)`, else a termination.
        """

    @hands_on
    def reset_after(self, state: StateT) -> tuple[Any, StateT]:
        """
        Begin the episode after one that ended in `state`. Auto-reset calls it.

        By default `reset` with a key split from `state.rng`; a curriculum, say, overrides it, and
        splits that key as a step does. Where it is overridden, an episode counts as one that
        depends on the one before.
        """
        return self.reset(jax.random.split(state.rng)[0])

    def at_limit(self, state: StateT) -> jax.Array:
        """
        Whether a state is at the time limit: a bool scalar, by default `step >= config.max_steps`.

        It alone decides what an end without a reason is. An environment or a wrapper with a limit
        of its own overrides it: `super().at_limit(state) | (state.step >= state.limit)`. Without
        the first part, `max_steps` no longer counts.
        """
        return state.step >= self.config.max_steps

    def action_mask(self, state: StateT) -> Any:
        """
        The mask of legal actions: a pytree of bool, True for legal; None, the default, if all are.

        Shape `(n,)` for a `Discrete(n)`; `(*shape, max n)` for a `MultiDiscrete`, padded with
        False; for a nested space, a container of masks or None. `sample(rng, mask)` takes it.
        """
        return None

    def observe(self, state: StateT) -> Any:
        """
        The observation of a state; None, the default, if the state does not determine it.

        An environment that defines it promises that `reset` and `step` return `observe(new_state)`.
        Wrappers that skip frames then draw only those that they keep. A subclass makes the same
        promise: if its `reset` or `step` return other observations, it defines `observe` again.
        """
        return None

    def active(self, state: StateT) -> dict[str, jax.Array]:
        """Which agents act in the next step: a bool scalar for each, True by default."""
        return {agent: jnp.bool_(True) for agent in self.agents}

    @hands_on
    def render(self, state: StateT) -> np.ndarray:
        """Draw a state on the host: a uint8 RGB image of shape (H, W, 3)."""
        raise NotImplementedError(
            f"{type(self).__name__} does not implement render. Override `render(state)` and return "
            "a uint8 array of shape (H, W, 3)."
        )

    def compile(self) -> None:
        """Compile `reset` and `step` ahead, in a stack with a `JitWrapper`; else do nothing."""

    def _with_config(self, fields: dict[str, Any]) -> Any:
        return rebuilt(self, fields)

    def _with_starts(self, give: Callable[[], tuple[Any, Any]]) -> Any:
        """The same stack, in which `give` begins every episode of the innermost environment."""
        return _WithStarts(self, give)

    def _carries_over(self) -> bool:
        """Whether an episode may depend on the one before."""
        return adds(self.reset_after)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config})"


AnyEnv = JaxEnv[Any, Any, Any, Any]
EnvT = TypeVar("EnvT", bound=AnyEnv)


class ForwardingEnv(JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Base class of environments that are another one, `env`, except for what they override.

    Attributes
    ----------
    env : JaxEnv
        The other environment.
    """

    env: JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT]

    @property
    @hands_on
    def config(self) -> ConfigT:
        return self.env.config

    @property
    @hands_on
    def name(self) -> str:
        return self.env.name

    @property
    def unwrapped(self) -> AnyEnv:
        return self.env.unwrapped

    @property
    def traceable(self) -> bool:
        return self.env.traceable

    @property
    def agents(self) -> tuple[str, ...]:
        return self.env.agents

    @property
    @hands_on
    def observation_space(self) -> ObsSpaceT:
        return self.env.observation_space

    @property
    @hands_on
    def action_space(self) -> ActSpaceT:
        return self.env.action_space

    def reset(self, rng: jax.Array) -> tuple[Any, StateT]:
        return self.env.reset(rng)

    def step(self, state: StateT, action: Any) -> tuple[Any, StateT, jax.Array, jax.Array, Info]:
        return self.env.step(self._inner(state), action)

    @hands_on
    def at_limit(self, state: StateT) -> jax.Array:
        return self.env.at_limit(self._inner(state))

    @hands_on
    def action_mask(self, state: StateT) -> Any:
        return self.env.action_mask(self._inner(state))

    @hands_on
    def observe(self, state: StateT) -> Any:
        return self.env.observe(self._inner(state))

    @hands_on
    def active(self, state: StateT) -> dict[str, jax.Array]:
        return self.env.active(self._inner(state))

    @hands_on
    def render(self, state: StateT) -> np.ndarray:
        return self.env.render(self._inner(state))

    @hands_on
    def compile(self) -> None:
        self.env.compile()

    def close(self) -> None:
        self.env.close()

    def _around(self, env: AnyEnv) -> Self:
        """A copy of this wrapper around another environment with the same spaces."""
        other = copy.copy(self)
        other.env = env
        return other

    def _inner(self, state: Any) -> Any:
        """The state of the other environment, from the state of this one."""
        return state

    def _with_starts(self, give: Callable[[], tuple[Any, Any]]) -> Any:
        return self._around(self.env._with_starts(give))

    def _carries_over(self) -> bool:
        return adds(self.reset_after) or self.env._carries_over()


class _WithStarts(ForwardingEnv[Any, Any, Any, Any]):
    """An environment whose episodes `give` begins."""

    def __init__(self, env: AnyEnv, give: Callable[[], tuple[Any, Any]]) -> None:
        self.env = env
        self.give = give

    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        return self.give()

    @hands_on
    def reset_after(self, state: Any) -> tuple[Any, Any]:
        return self.give()

    def _with_config(self, fields: dict[str, Any]) -> Any:
        return _WithStarts(self.env._with_config(fields), self.give)


def carries_over(env: AnyEnv) -> bool:
    """Whether an episode may depend on the one before: `reset_after` is not that of `JaxEnv`."""
    return env._carries_over()  # pyright: ignore[reportPrivateUsage]


def starting_method_name(env: AnyEnv) -> str:
    """The method that begins the next episode, for messages: an own `reset_after`, or `reset`."""
    return "reset_after" if carries_over(env) else "reset"


def with_config(env: EnvT, /, **fields: Any) -> EnvT:
    """
    Build the environment and its wrappers again, without `JitWrapper`, with some fields changed.

    JAX arrays, traced too, are cast to the dtype of the value that they replace, but for an int64
    in place of an int. Other values are taken as the config's class takes them. A dict changes only
    the entries that it names.

    Raises
    ------
    TypeError
        If a field is unknown, a value does not fit it, or the class cannot be built again from its
        config: its `__init__` has other parameters, or the config has a `__post_init__`.
    """
    if not isinstance(env, JaxEnv):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"with_config: expected a JaxEnv; got {env!r}. Change it within the batch.")
    return env._with_config(fields)  # pyright: ignore[reportPrivateUsage]
