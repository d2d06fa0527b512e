"""The bases of all wrappers, and deferred construction."""

import inspect
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast, overload

import jax
import numpy as np

from envrax._compile import Compilation
from envrax._returned import require_tuple
from envrax.env import ActSpaceT, ConfigT, Info, JaxEnv, ObsSpaceT, StateT, episode_ended

AnyEnv = JaxEnv[Any, Any, Any, Any]


@dataclass(frozen=True)
class WrapperFactory:
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

    wrapper: Callable[..., AnyEnv]
    kwargs: dict[str, Any] = field(default_factory=dict[str, Any])

    def __call__(self, env: AnyEnv) -> AnyEnv:
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
        return inspect.signature(partial(cls.__init__, None))

    if not TYPE_CHECKING:  # checkers read `Wrapper.__new__` instead

        def __call__(cls, *args, **kwargs):
            waits = not args and "env" not in kwargs
            env = None if waits else args[0] if args else kwargs["env"]
            if not waits and not isinstance(env, JaxEnv):
                raise TypeError(
                    f"{cls.__name__}: expected a JaxEnv as first argument; got {env!r}. Pass "
                    "an environment, or only keywords to get a factory that waits for one: "
                    f"{_legal(cls)}."
                )
            try:
                inspect.signature(cls).bind(*([env] if waits else args), **kwargs)
            except TypeError as error:
                rest = [_short(x) for x in args[1:]]
                raise TypeError(
                    f"{cls.__name__}: expected the keywords of {_legal(cls)}; got "
                    f"{_call_repr(cls.__name__, kwargs, *rest)}: {error}."
                ) from None
            return WrapperFactory(cls, kwargs) if waits else super().__call__(*args, **kwargs)


class Wrapper(JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT], metaclass=WrapperMeta):
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
        def __new__(
            cls, **kwargs: Any
        ) -> Callable[[JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT]], Self]: ...
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
    def compilation(self) -> Compilation | None:
        return self.env.compilation

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
        obs, state = require_tuple(type(self.env).__name__, "reset", self.env.reset(rng))
        return self.observation(obs), state

    def step(self, state: StateT, action: Any) -> tuple[Any, StateT, jax.Array, jax.Array, Info]:
        stepped = self.env.step(state, self.action(action))
        obs, state, reward, done, info = require_tuple(type(self.env).__name__, "step", stepped)
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

    def close(self) -> None:
        self.env.close()

    def __repr__(self) -> str:
        # Not `getattr`: a keyword may have the name of a hook.
        given = {k: vars(self)[k] for k in _keywords(type(self)) if k in vars(self)}
        return _call_repr(type(self).__name__, given, repr(self.env))


class ObservationWrapper(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """A wrapper with observations, and an observation space, of its own."""

    if TYPE_CHECKING:

        @overload
        def __new__(cls, env: AnyEnv, *args: Any, **kwargs: Any) -> Self: ...
        @overload
        def __new__(
            cls, **kwargs: Any
        ) -> Callable[[JaxEnv[Any, ActSpaceT, StateT, ConfigT]], Self]: ...
        def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...

    def __init__(self, env: JaxEnv[Any, ActSpaceT, StateT, ConfigT]) -> None:
        super().__init__(env)

    @property
    @abstractmethod
    def observation_space(self) -> ObsSpaceT: ...

    @abstractmethod
    def observation(self, obs: Any) -> Any: ...


class ActionWrapper(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """A wrapper with actions, and an action space, of its own."""

    if TYPE_CHECKING:

        @overload
        def __new__(cls, env: AnyEnv, *args: Any, **kwargs: Any) -> Self: ...
        @overload
        def __new__(
            cls, **kwargs: Any
        ) -> Callable[[JaxEnv[ObsSpaceT, Any, StateT, ConfigT]], Self]: ...
        def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...

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
    """The keywords that a wrapper class takes beside its environment, with their defaults."""
    _, *others = inspect.signature(cls).parameters.values()
    return {p.name: p.default for p in others if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def _legal(cls: type) -> str:
    return _call_repr(cls.__name__, _keywords(cls))


def _call_repr(name: str, kwargs: Mapping[str, Any], *first: str) -> str:
    return f"{name}({', '.join([*first, *(f'{k}={_short(v)}' for k, v in kwargs.items())])})"


def _short(value: Any) -> str:
    return "..." if value is inspect.Parameter.empty else repr(value)
