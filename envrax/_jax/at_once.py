"""Values that are computed at once, also where JAX traces the caller."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import Field
from inspect import isfunction
from typing import Any

import jax

from envrax._checks.marks import adds
from envrax._jax.types import is_inside_jit


def computed_at_once() -> AbstractContextManager[None]:
    """
    A block whose operations give values, also where the caller is traced by `jit`.

    Without a trace it changes nothing: `equinox.error_if` fails in JAX's own block.
    """
    return jax.ensure_compile_time_eval() if is_inside_jit() else nullcontext()


def compute_at_once(cls: type, *names: str) -> None:
    """
    Let those of these properties that a class defines give values where JAX traces their reader.

    Without it, what `jnp` computes in them would be a tracer there, of which no space can be made.
    What is no space is refused, as the value of an attribute too: a dict, one of Gymnasium.
    """
    for name in names:
        defined = vars(cls).get(name)
        if isinstance(defined, functools.cached_property):
            defined.func = _at_once(defined.func, name)
        elif isinstance(defined, property) and defined.fget is not None:
            read = _at_once(defined.fget, name) if adds(defined) else defined.fget
            setattr(cls, name, defined.getter(read).setter(defined.fset or _refuse))
        elif isfunction(defined) or not (
            hasattr(defined, "batch")
            or hasattr(defined, "__get__")
            or isinstance(defined, Field | None)  # set later
        ):
            raise _no_space(cls, name, defined)


def _refuse(self: Any, value: Any) -> None:
    raise AttributeError(
        f"{type(self).__name__}: expected a space that is a property of the class; got {value}, "
        "set on the object. Write `@property`, and a method that returns it."
    )


def _at_once(read: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    @functools.wraps(read)
    def at_once(self: Any) -> Any:
        with jax.ensure_compile_time_eval():
            space = read(self)
        if not hasattr(space, "batch"):
            raise _no_space(type(self), name, space)
        return space

    return at_once


def _no_space(cls: type, name: str, got: Any) -> TypeError:
    return TypeError(
        f"{cls.__name__}.{name}: expected a space of envrax, or a property that returns one; got "
        f"{got!r}, a {type(got).__module__}.{type(got).__qualname__}. Put several into an "
        "`envrax.Dict`; `envrax.interop.from_space` converts a space of Gymnasium."
    )
