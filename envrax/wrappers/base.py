"""The bases of all wrappers, and deferred construction."""

import inspect
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast, overload

import chex
import jax
import numpy as np

from envrax._generics import pinned_class
from envrax.env import (
    ActSpaceT,
    ConfigT,
    EnvState,
    Info,
    JaxEnv,
    ObsSpaceT,
    StateT,
    episode_ended,
)

AnyEnv = JaxEnv[Any, Any, Any, Any]
WrapperT_co = TypeVar("WrapperT_co", bound=AnyEnv, covariant=True)
InnerStateT = TypeVar("InnerStateT", bound=EnvState)


@dataclass(frozen=True)
class WrapperFactory(Generic[WrapperT_co]):
    """
    A wrapper class and its keywords, waiting for an environment.

    Made by calling a wrapper class without one: `ResizeObservation(h=84, w=84)`. Factories are
    compared by value and can be pickled.

    Attributes
    ----------
    wrapper : type
        The wrapper class.
    kwargs : dict
        Its keywords.
    """

    wrapper: Callable[..., WrapperT_co]
    kwargs: dict[str, Any] = field(default_factory=dict[str, Any])

    def __call__(self, env: AnyEnv) -> WrapperT_co:
        """Wrap `env`."""
        return self.wrapper(env, **self.kwargs)

    def __hash__(self) -> int:  # the values of the keywords may be unhashable
        return hash((self.wrapper, tuple(sorted(self.kwargs))))

    def __repr__(self) -> str:
        return _call_repr(cast(type, self.wrapper).__name__, self.kwargs)


class WrapperMeta(ABCMeta):
    """Calls a wrapper class: with an environment it is built, without one it waits for it."""

    @property
    def __signature__(cls) -> inspect.Signature:
        return inspect.signature(cls.__init__.__get__(object(), cls))

    if not TYPE_CHECKING:  # checkers read `Wrapper.__new__` instead

        def __call__(cls, *args, **kwargs):
            if args or "env" in kwargs:
                env = args[0] if args else kwargs["env"]
                if not isinstance(env, JaxEnv):
                    raise TypeError(
                        f"{cls.__name__}: expected a JaxEnv as first argument; got {env!r}. Pass "
                        "an environment, or only keywords to get a factory that waits for one: "
                        f"{_call_repr(cls.__name__, _keywords(cls))}."
                    )
                return super().__call__(*args, **kwargs)
            try:
                inspect.signature(cls).bind(None, **kwargs)
            except TypeError as error:
                raise TypeError(
                    f"{cls.__name__}: expected keywords of {_call_repr(cls.__name__, _keywords(cls))}"
                    f"; got {_call_repr(cls.__name__, kwargs)}: {error}."
                ) from None
            return WrapperFactory(cls, kwargs)


class Wrapper(
    JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT], metaclass=WrapperMeta
):
    """
    An environment around an environment, with the same state.

    A subclass overrides the hook for what it changes: `action`, `observation`, `reward`, `done` or
    `info`, and the space that goes with it.

    Called with keywords and no environment, a wrapper class returns a factory, which a list of
    wrappers takes: `ResizeObservation(h=84, w=84)`.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.

    Raises
    ------
    TypeError
        If `env` is no `JaxEnv`, or a keyword is unknown.
    """

    if TYPE_CHECKING:

        @overload
        def __new__(cls, env: AnyEnv, *args: Any, **kwargs: Any) -> Self: ...
        @overload
        def __new__(cls, **kwargs: Any) -> WrapperFactory[Self]: ...  # type: ignore[misc]
        def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...

    def __init__(self, env: JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT]) -> None:
        self.env = env

    @property
    def config(self) -> ConfigT:
        return self.env.config

    @property
    def name(self) -> str:
        return self.env.name

    @property
    def unwrapped(self) -> AnyEnv:
        return self.env.unwrapped

    @property
    def traceable(self) -> bool:
        return self.env.traceable

    @property
    def observation_space(self) -> ObsSpaceT:
        return self.env.observation_space

    @property
    def action_space(self) -> ActSpaceT:
        return self.env.action_space

    def action(self, action: Any) -> Any:
        """The action that the wrapped environment gets."""
        return action

    def observation(self, obs: Any) -> Any:
        """The observation that the caller gets, at reset and after a step."""
        return obs

    def reward(self, reward: jax.Array) -> jax.Array:
        """The reward that the caller gets."""
        return reward

    def done(self, done: jax.Array) -> jax.Array:
        """The `done` that the caller gets; the state keeps the bool, whatever this makes of it."""
        return done

    def info(self, info: Info) -> Info:
        """The info that the caller gets: a new dict, the given one is not the wrapper's."""
        return info

    def reset(self, rng: jax.Array) -> tuple[Any, StateT]:
        obs, state = self.env.reset(rng)
        return self.observation(obs), state

    def step(self, state: StateT, action: Any) -> tuple[Any, StateT, jax.Array, jax.Array, Info]:
        obs, state, reward, done, info = self.env.step(state, self.action(action))
        return (
            self.observation(obs),
            state.replace(done=episode_ended(self.env, state, done)),
            self.reward(reward),
            self.done(done),
            self.info(info),
        )

    def render(self, state: StateT) -> np.ndarray:
        return self.env.render(state)

    def compile(self) -> None:
        self.env.compile()

    def __repr__(self) -> str:
        given = {k: getattr(self, k) for k in _keywords(type(self)) if hasattr(self, k)}
        return _call_repr(type(self).__name__, given, repr(self.env))


class ObservationWrapper(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """A wrapper with observations, and an observation space, of its own."""

    def __init__(self, env: JaxEnv[Any, ActSpaceT, StateT, ConfigT]) -> None:
        super().__init__(env)

    @property
    @abstractmethod
    def observation_space(self) -> ObsSpaceT: ...

    @abstractmethod
    def observation(self, obs: Any) -> Any: ...


class ActionWrapper(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """A wrapper with actions, and an action space, of its own."""

    def __init__(self, env: JaxEnv[ObsSpaceT, Any, StateT, ConfigT]) -> None:
        super().__init__(env)

    @property
    @abstractmethod
    def action_space(self) -> ActSpaceT: ...

    @abstractmethod
    def action(self, action: Any) -> Any: ...


class RewardWrapper(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """A wrapper with rewards of its own."""

    @abstractmethod
    def reward(self, reward: jax.Array) -> jax.Array: ...


@chex.dataclass
class WrapperState(EnvState, Generic[InnerStateT]):
    """
    State of a stateful wrapper; its subclasses add what they remember.

    Attributes
    ----------
    env_state : InnerStateT
        State of the wrapped environment, whose `rng`, `step` and `done` are repeated here.
    """

    env_state: InnerStateT


class StatefulWrapper(
    Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT],
    Generic[ObsSpaceT, ActSpaceT, StateT, ConfigT, InnerStateT],
):
    """
    A wrapper that remembers something from step to step.

    The subclass pins its state class, a `WrapperState` with fields of its own, and writes `on_reset` and `on_step`. `rng`, `step` and `done` are those of the wrapped
    environment.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.

    Raises
    ------
    TypeError
        If the class pins no state class.
    """

    def __init__(self, env: JaxEnv[Any, ActSpaceT, InnerStateT, ConfigT]) -> None:
        super().__init__(cast(Any, env))
        state_class = pinned_class(type(self), JaxEnv, StateT)
        if state_class is None:
            raise TypeError(
                f"{type(self).__name__} does not pin a concrete type for its state. Name the "
                "class: `StatefulWrapper[ObsSpaceT, ActSpaceT, MyState, ConfigT, InnerStateT]`."
            )
        self._state_class = cast(type[StateT], state_class)

    @abstractmethod
    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        """
        Begin to remember.

        Parameters
        ----------
        obs : pytree of jax.Array
            First observation of the wrapped environment.

        Returns
        -------
        obs : pytree of jax.Array
            First observation for the caller.
        fields : dict
            Values of the state's own fields.
        """

    @abstractmethod
    def on_step(
        self, obs: Any, state: StateT, reward: jax.Array, done: jax.Array, info: Info
    ) -> tuple[Any, StateT, jax.Array, jax.Array, Info]:
        """
        Rework what the wrapped environment's step returned.

        Parameters
        ----------
        obs, reward, done, info
            As the wrapped environment returned them.
        state : StateT
            The forwarded fields are those after the step, with `done` telling whether the episode
            has ended; the wrapper's own fields are those before it.

        Returns
        -------
        tuple
            The same five for the caller, with the wrapper's own fields brought up to date.
        """

    def reset(self, rng: jax.Array) -> tuple[Any, StateT]:
        obs, inner = self.env.reset(rng)
        obs, fields = self.on_reset(obs)
        fields |= dict(env_state=inner, rng=inner.rng, step=inner.step, done=inner.done)
        return obs, self._state_class(**fields)

    def step(self, state: StateT, action: Any) -> tuple[Any, StateT, jax.Array, jax.Array, Info]:
        inner = cast(WrapperState[Any], state).env_state
        obs, inner, reward, done, info = self.env.step(inner, self.action(action))
        after = state.replace(
            env_state=inner,
            rng=inner.rng,
            step=inner.step,
            done=episode_ended(self.env, inner, done),
        )
        return self.on_step(obs, after, reward, done, info)

    def render(self, state: StateT) -> np.ndarray:
        return self.env.render(cast(WrapperState[Any], state).env_state)


def layers(env: AnyEnv) -> Iterator[AnyEnv]:
    """Every environment of a stack, the outermost first."""
    while isinstance(env, Wrapper):
        yield env
        env = env.env
    yield env


def require(holds: bool, wrapper: type, expected: str, got: object) -> None:
    """Raise a TypeError that names the wrapper, what it expects and what it got, if not `holds`."""
    if not holds:
        raise TypeError(f"{wrapper.__name__}: expected {expected}; got {got}.")


def _keywords(cls: type) -> dict[str, Any]:
    """The keywords that a wrapper class takes beside `env`, with their defaults."""
    parameters = list(inspect.signature(cls).parameters.values())[1:]
    return {p.name: p.default for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def _call_repr(name: str, kwargs: Mapping[str, Any], *first: str) -> str:
    return f"{name}({', '.join([*first, *(f'{k}={_short(v)}' for k, v in kwargs.items())])})"


def _short(value: Any) -> str:
    return "..." if value is inspect.Parameter.empty else repr(value)
