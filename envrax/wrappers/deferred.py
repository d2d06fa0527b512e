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
    A wrapper class and its keywords; called with an environment, it wraps it.

    Calling a wrapper class without an environment makes one: `ResizeObservation(h=84, w=84)`.
    Factories are compared by value and can be pickled.

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
        return call_repr(cast(type, self.wrapper).__name__, self.kwargs)


class WrapperMeta(ABCMeta):
    """Metaclass: a class called without an environment returns a `WrapperFactory`."""

    _wraps: type = JaxEnv
    _in_worlds: Callable[..., AnyEnv] | None = None  # around a world of several agents

    @property
    def __signature__(cls) -> inspect.Signature:
        return inspect.signature(partial(cls.__init__, None))

    if not TYPE_CHECKING:  # type checkers read `Wrapper.__new__` instead

        def __call__(cls, *args, **kwargs):
            env = next(iter(inspect.signature(cls).parameters), "env")  # its name here
            if not args and env in kwargs:
                args = (kwargs.pop(env),)
            if args and not isinstance(args[0], cls._wraps):
                raise TypeError(
                    f"{cls.__name__}: expected a {cls._wraps.__name__} as first argument; got "
                    f"{args[0]!r}. Wrappers of an environment go inside `VecEnv`, those of "
                    "`envrax.wrappers.vector` around it; called with keywords alone, "
                    f"{_usage(cls)} is a factory."
                )
            try:
                inspect.signature(cls).bind(*(args or [None]), **kwargs)
            except TypeError as error:
                rest = [_short(x) for x in args[1:]]
                raise TypeError(
                    f"{cls.__name__}: expected the keywords of {_usage(cls)}; got "
                    f"{call_repr(cls.__name__, kwargs, *rest)}: {error}."
                ) from None
            if not args:
                return WrapperFactory(cls, kwargs)
            if cls._in_worlds is not None and args[0].agents:
                return cls._in_worlds(args[0], cls, args[1:], kwargs)
            wrapper = super().__call__(*args, **kwargs)
            wrapper._arguments = args, kwargs  # an `__init__` may keep them under other names
            return wrapper


def keywords(cls: type) -> dict[str, Any]:
    """The keywords that a wrapper class takes besides its environment, with their defaults."""
    _, *others = inspect.signature(cls).parameters.values()
    return {p.name: p.default for p in others if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def call_repr(name: str, kwargs: Mapping[str, Any], *first: str) -> str:
    """A call written out: `name(*first, **kwargs)`."""
    return f"{name}({', '.join([*first, *(f'{k}={_short(v)}' for k, v in kwargs.items())])})"


def _usage(cls: type) -> str:
    return call_repr(cls.__name__, keywords(cls))


def _short(value: Any) -> str:
    return "..." if value is inspect.Parameter.empty else repr(value)
