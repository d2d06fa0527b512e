"""The environment contract: a pure pair `reset` and `step` over an explicit state."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import chex
import jax
import numpy as np

from envrax._checks import known_keywords
from envrax._closing import Closing
from envrax._config import FieldsByKeyword, require_decorated, resolve_config
from envrax._generics import pinned_class
from envrax._jax.cache import Compilation
from envrax._rebuild import rebuilt
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
class EnvConfig(FieldsByKeyword):
    """
    What is fixed when an environment is built. Environments extend it with fields of their own.

    Attributes
    ----------
    max_steps : int
        Time limit of an episode, in steps.
    """

    max_steps: int = 1000

    def in_place_of(self, registered: "EnvConfig") -> "EnvConfig":
        """
        This config, given to a factory in place of the registered one. By default it is itself.

        Parameters
        ----------
        registered : EnvConfig
            The config under the id that is made.

        Raises
        ------
        ValueError
            If it is a config of another environment, for a class that can tell.
        """
        return self


ObsSpaceT = TypeVar("ObsSpaceT", bound=Space)
ActSpaceT = TypeVar("ActSpaceT", bound=Space)
StateT = TypeVar("StateT", bound=EnvState)
ConfigT = TypeVar("ConfigT", bound=EnvConfig)

Info = dict[str, Any]


class JaxEnv(Closing, ABC, Generic[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    An environment as two pure functions, ready for `jit`, `vmap`, `scan` and `grad`.

    A subclass names its four types in the brackets and writes `observation_space`, `action_space`,
    `reset` and `step`. It may write `render`.

    Parameters
    ----------
    config : ConfigT, optional
        None builds the config class named in the brackets, with its defaults. An instance of that
        class or of a subclass is kept as it is. One of a parent class is widened: its fields are
        kept, the others take their defaults.

    Raises
    ------
    TypeError
        If no config is given and the class names none, if the config is of an unrelated class, or
        if a required field has no value.
    """

    @known_keywords
    def __init__(self, config: ConfigT | None = None) -> None:
        cls = type(self)
        pinned = pinned_class(cls, JaxEnv, ConfigT)
        require_decorated(cls, "state", pinned_class(cls, JaxEnv, StateT))
        require_decorated(cls, "config", pinned)
        self._config: ConfigT = resolve_config(cls, pinned, EnvConfig, config)

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
    def class_name(self) -> str:
        """What fleets group it by: the name of its class; an adapter tells its ids apart."""
        return type(self).__name__

    @property
    def unwrapped(self) -> "JaxEnv[Any, Any, Any, Any]":
        """The innermost environment; the environment itself if it is no wrapper."""
        return self

    @property
    def traceable(self) -> bool:
        """Whether JAX can trace `reset` and `step`; False where Python must run at every step."""
        return True

    @property
    def carries_over(self) -> bool:
        """Whether an episode may depend on the one before: whether `reset_after` is overridden."""
        return type(self).reset_after is not JaxEnv.reset_after

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

    def reset_after(self, state: StateT) -> tuple[Any, StateT]:
        """
        Begin the episode that follows one which ended. Auto-reset calls it.

        By default that is `self.reset(jax.random.split(state.rng)[0])`. Override it for what lasts
        longer than an episode: parameters of a slot, a curriculum, a count of episodes. Only those
        leaves of the old state that it reads are copied from a batch.

        Parameters
        ----------
        state : StateT
            Last state of the episode that ended.

        Returns
        -------
        obs, state
            As from `reset`, of the same structure, shapes and dtypes.
        """
        return self.reset(jax.random.split(state.rng)[0])

    def action_mask(self, state: StateT) -> Any:
        """
        Which actions are legal in a state. Not by default: None says that all are.

        Parameters
        ----------
        state : StateT
            State of the episode, from `reset` or `step`.

        Returns
        -------
        pytree of jax.Array, or None
            bool, True for what is legal: of shape `(n,)` for a `Discrete(n)`; of shape
            `(*shape, max n)` for a `MultiDiscrete`, padded with False; for a nested space a
            container of masks or None. `action_space.sample(rng, mask)` draws a legal action.
        """
        return None

    def with_rng(self, state: StateT, rng: jax.Array) -> StateT:
        """
        The same state with other randomness ahead, for a state from which several episodes begin.

        Parameters
        ----------
        state : StateT
            A state of this environment.
        rng : jax.Array
            PRNG key, in place of `state.rng`. An environment whose state holds further keys
            overrides this method and replaces them too, by keys split from `rng`.
        """
        return state.replace(rng=rng)

    def render(self, state: StateT) -> np.ndarray:
        """
        Draw a state of a single environment, on the host.

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
            f"{type(self).__name__} does not implement render. Override `render(state)` and return "
            "a uint8 array of shape (H, W, 3)."
        )

    def with_config(self, **fields: Any) -> Self:
        """
        The same environment, with some fields of its config changed.

        Values may be traced: a JAX array must fit the field in kind and shape, and becomes float32,
        int32 or bool where that is a Python number. In a field that is a dict, a dict changes the
        entries that it names, and keeps the others. The class is called again, so that what its
        `__init__` makes of the config follows. A class whose `__init__` takes more than a config
        overrides this method.

        Parameters
        ----------
        **fields
            Fields of the config and their values.

        Raises
        ------
        TypeError
            If the config has no such field or entry, an array does not fit it, the class takes more
            than a config, or attributes were edited, which would be lost.
        """
        return rebuilt(self, fields)

    def compile(self) -> None:
        """Compile what a wrapper such as `JitWrapper` compiles; nothing on a base environment."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config})"


AnyEnv = JaxEnv[Any, Any, Any, Any]
