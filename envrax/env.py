"""The environment contract: a pure pair `reset` and `step` over an explicit state."""

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import chex
import jax
import numpy as np

from envrax._core.closing import Closing
from envrax._core.config import (
    FieldsByKeyword,
    Replaceable,
    rebuilt,
    require_decorated,
    resolve_config,
)
from envrax._core.generics import pinned_class
from envrax.spaces import Space


@chex.dataclass
class EnvState(Replaceable):
    """
    What changes while an episode runs: a pytree. Environments extend it with `@chex.dataclass`.

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


ObsSpaceT = TypeVar("ObsSpaceT", bound=Space)
ActSpaceT = TypeVar("ActSpaceT", bound=Space)
StateT = TypeVar("StateT", bound=EnvState)
ConfigT = TypeVar("ConfigT", bound=EnvConfig)

Info = dict[str, Any]


class JaxEnv(Closing, ABC, Generic[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    An environment as two pure functions, ready for `jit`, `vmap`, `scan` and `grad`.

    A subclass names its four types in the brackets and writes the two spaces, `reset` and `step`.

    Parameters
    ----------
    config : ConfigT, optional
        None builds the config class named in the brackets, with its defaults. An instance of that
        class or of a subclass is kept as it is. One of a parent class is widened: its fields are
        kept, the others take their defaults. Anything else is a TypeError.
    """

    def __init__(self, config: ConfigT | None = None) -> None:
        cls, pinned = type(self), pinned_class(type(self), JaxEnv, ConfigT)
        for declared in (pinned_class(cls, JaxEnv, StateT), pinned):
            require_decorated(cls.__name__, declared)
        self._config: ConfigT = resolve_config(cls.__name__, pinned, EnvConfig, config)

    @property
    def config(self) -> ConfigT:
        """The static configuration."""
        return self._config

    @property
    def name(self) -> str:
        """The name of the environment's class; a wrapper reports the one it wraps."""
        return type(self).__name__

    @property
    def unwrapped(self) -> "AnyEnv":
        """The innermost environment; the environment itself if it is no wrapper."""
        return self

    @property
    def traceable(self) -> bool:
        """Whether JAX can trace `reset` and `step`; False where Python must run at every step."""
        return True

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
        Begin the episode after one that ended in `state`. Auto-reset calls it.

        It returns what `reset` does, by default with a key split from `state.rng`. Override it for
        what lasts longer than an episode, as a curriculum. Only those leaves of `state` that it
        reads are copied from a batch.
        """
        return self.reset(jax.random.split(state.rng)[0])

    def action_mask(self, state: StateT) -> Any:
        """
        Which actions are legal in a state: a pytree of bool, or None if all are, as by default.

        True is legal. The mask has shape `(n,)` for a `Discrete(n)`, and `(*shape, max n)` for a
        `MultiDiscrete`, padded with False; for a nested space it is a container of masks or None.
        `action_space.sample(rng, mask)` draws a legal action.
        """
        return None

    def render(self, state: StateT) -> np.ndarray:
        """Draw a state on the host: a uint8 RGB image of shape (H, W, 3)."""
        raise NotImplementedError(
            f"{type(self).__name__} does not implement render. Override `render(state)` and return "
            "a uint8 array of shape (H, W, 3)."
        )

    def compile(self) -> None:
        """Compile what a wrapper such as `JitWrapper` compiles; nothing on a base environment."""

    @property
    def _carries_over(self) -> bool:
        return type(self).reset_after is not JaxEnv.reset_after

    def _with_config(self, fields: dict[str, Any]) -> Any:
        return rebuilt(self, fields)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config})"


AnyEnv = JaxEnv[Any, Any, Any, Any]
EnvT = TypeVar("EnvT", bound=AnyEnv)


def carries_over(env: AnyEnv) -> bool:
    """Whether an episode may depend on the one before: whether `reset_after` is overridden."""
    return env._carries_over  # pyright: ignore[reportPrivateUsage]


def with_config(env: EnvT, /, **fields: Any) -> EnvT:
    """
    The same environment, in the same wrappers, with some fields of its config changed.

    The class is called again; a `JitWrapper` is left out. Values may be traced: a JAX array becomes
    float32, int32 or bool where the field is a Python number. A dict changes the entries that it
    names of a field that is a dict.

    Raises
    ------
    TypeError
        If the config has no such field or entry or the array does not fit it, if it has a
        `__post_init__`, or if the class takes more than a config.
    """
    return env._with_config(fields)  # pyright: ignore[reportPrivateUsage]
