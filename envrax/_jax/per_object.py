"""A weak cache: one value for each object."""

from collections.abc import Callable
from typing import Any
from weakref import finalize, ref

import jax


class PerObject:
    """
    A cache of `make(weakref.ref(x))` for each object x, by identity; entries are freed with it.

    `make` gets a weak reference; what it returns must not hold the object.
    """

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make
        self._made = dict[int, Any]()

    def __call__(self, of: Any) -> Any:
        if id(of) not in self._made:
            self._made[id(of)] = self._make(ref(of))
            finalize(of, self._made.pop, id(of), None).atexit = False
        return self._made[id(of)]


def program_per_env(function: Callable[..., Any], *static: int) -> PerObject:
    """For each environment `function(env, *args)` as a function of `args` under `jit`."""

    def program(env: Any) -> Any:
        return jax.jit(lambda *args: function(env(), *args), static_argnums=static)

    return PerObject(program)
