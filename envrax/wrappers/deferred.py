"""Deferred construction: a wrapper class called without an environment returns a factory."""

import inspect
from abc import ABCMeta
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from envrax.env import AnyEnv, JaxEnv


@dataclass(frozen=True)
class WrapperFactory:
    """
    A wrapper class and its keyword arguments. Calling it with an environment wraps that.

    A wrapper class that is called without an environment returns a factory:
    `ResizeObservation(h=84, w=84)`. Factories are compared by value and can be pickled.

    Attributes
    ----------
    wrapper : type
        The wrapper class.
    kwargs : dict
        Its keyword arguments.
    """

    wrapper: Callable[..., AnyEnv]
    kwargs: dict[str, Any] = field(default_factory=dict[str, Any])

    def __call__(self, env: AnyEnv) -> AnyEnv:
        """Wrap `env`."""
        return self.wrapper(env, **self.kwargs)

    def __hash__(self) -> int:  # keyword values may be unhashable
        return hash((self.wrapper, tuple(sorted(self.kwargs))))

    def __repr__(self) -> str:
        return call_repr(cast(type, self.wrapper).__name__, self.kwargs)


class WrapperMeta(ABCMeta):
    """Metaclass: a class called without an environment returns a `WrapperFactory`."""

    _wraps: type = JaxEnv

    @property
    def __signature__(cls) -> inspect.Signature:
        return inspect.signature(partial(cls.__init__, None))

    if not TYPE_CHECKING:  # type checkers read `Wrapper.__new__` instead

        def __call__(cls, *args, **kwargs):
            signature = inspect.signature(cls)
            first_parameter = next(iter(signature.parameters), "env")
            if not args and first_parameter in kwargs:
                args = (kwargs.pop(first_parameter),)
            if args and not isinstance(args[0], cls._wraps):
                raise TypeError(
                    f"{cls.__name__}: expected a {cls._wraps.__name__} as first argument; got "
                    f"{args[0]!r}. Wrappers of an environment go inside `VecEnv`, wrappers of "
                    "`envrax.wrappers.vector` outside. Called with keywords only, "
                    f"{_usage(cls)} returns a factory."
                )
            try:
                signature.bind(*(args or [None]), **kwargs)
            except TypeError as error:
                positional = [_shown(x) for x in args[1:]]
                raise TypeError(
                    f"{cls.__name__}: expected the keywords of {_usage(cls)}; got "
                    f"{call_repr(cls.__name__, kwargs, *positional)}: {error}."
                ) from None
            if not args:
                return WrapperFactory(cls, kwargs)
            if cls.each_agent and args[0].agents:
                return cls._of_world(*args, **kwargs)
            wrapper = super().__call__(*args, **kwargs)
            if "env" not in vars(wrapper):
                raise TypeError(
                    f"{cls.__name__}: expected `__init__` to call `super().__init__(env)`; got a "
                    "wrapper without an environment. Call it first."
                )
            wrapper._arguments = args, kwargs  # `__init__` may store them under other names
            return wrapper


def keywords(cls: type) -> dict[str, Any]:
    """The keywords of a wrapper class, without its environment, and their defaults."""
    _, *parameters = inspect.signature(cls).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {p.name: p.default for p in parameters if p.kind not in variadic}


def call_repr(name: str, kwargs: Mapping[str, Any], *positional: str) -> str:
    """The source code of a call: `name(*positional, **kwargs)`."""
    by_keyword = [f"{key}={_shown(value)}" for key, value in kwargs.items()]
    return f"{name}({', '.join([*positional, *by_keyword])})"


def _usage(cls: type) -> str:
    return call_repr(cls.__name__, keywords(cls))


def _shown(value: Any) -> str:
    return "..." if value is inspect.Parameter.empty else repr(value)
