"""A weak cache: one value for each object."""

import threading
from collections.abc import Callable
from typing import Any
from weakref import finalize, ref

import jax

from envrax._jax.cache import CacheDir, compile_cache


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


def cached_program_per_env(function: Callable[..., Any], *static: int) -> PerObject:
    """`program_per_env` whose programs are compiled through the cache of their environment."""
    return PerObject(lambda env: _CachedProgram(env, function, static))


def cache_of(env: Any) -> tuple[CacheDir] | None:
    """The persistent cache for which an environment, or what it wraps, was compiled, in a tuple."""
    inner: Any = env
    while inner is not None and getattr(inner, "compiled_to", None) is None:
        inner = getattr(inner, "env", None)
    return getattr(inner, "compiled_to", None)


class _CachedProgram:
    """`function(env, *args)` under `jit`, compiled through the cache of the environment."""

    def __init__(
        self, env: Callable[[], Any], function: Callable[..., Any], static: tuple[int, ...]
    ) -> None:
        self._here = threading.local()  # `opened`: the cache, while a call compiles

        def traced(*args: Any) -> Any:
            result = function(env(), *args)
            # JAX traces only where it has no program, and compiles next. The cache is opened
            # between the two: one thread at a time may have it open, and the trace runs code of
            # the user, who may wait for another thread.
            cache = cache_of(env())
            if cache is not None and getattr(self._here, "opened", None) is None:
                self._here.opened = compile_cache(cache[0])
                self._here.opened.__enter__()
            return result

        self._jitted: Any = jax.jit(traced, static_argnums=static)

    def __call__(self, *args: Any) -> Any:
        try:
            return self._jitted(*args)
        finally:
            opened = getattr(self._here, "opened", None)
            if opened is not None:
                self._here.opened = None
                opened.__exit__(None, None, None)
