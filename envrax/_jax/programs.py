"""Compiled programs of an environment: they hold neither it nor a function of the user."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from weakref import finalize, ref

import jax

from envrax._jax.cache import Compilation, compile_cache
from envrax._jax.copies import copy_numpy


class PerObject:
    """
    A cache of `make(*weak references)` for one or more objects, by identity.

    An entry is freed with any of its objects. `make` gets weak references, and what it returns must
    not hold the objects.
    """

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._made = dict[tuple[int, ...], Any]()

    def __call__(self, *objects: Any) -> Any:
        key = tuple(map(id, objects))
        if key not in self._made:
            self._made[key] = self._make(*map(ref, objects))
            for x in objects:
                finalize(x, self._made.pop, key, None).atexit = False
        return self._made[key]


def programs(function: Callable[..., Any], *static: int) -> PerObject:
    """
    For each environment, `function(env, *args)` as a function of `args` under `jit`.

    A program is compiled through the cache of its environment. Pass more objects, such as a
    function that the user compiled, to have a program for these too; it is freed with the first
    that goes.
    """
    return PerObject(lambda env, *_: _CachedProgram(env, function, static))


def compilation_within(env: Any) -> Compilation | None:
    """How an environment, or what it wraps, was compiled by `compile`; None if it was not."""
    inner: Any = env
    while inner is not None:
        found = getattr(inner, "compiled_with", None)
        if found is not None:
            return found
        inner = getattr(inner, "env", None)
    return None


class _CachedProgram:
    """`function(env, *args)` under `jit`, compiled through the cache of the environment."""

    def __init__(
        self, env: Callable[[], Any], function: Callable[..., Any], static: tuple[int, ...]
    ) -> None:
        self._here = threading.local()  # `after_trace`: closes what a call of this thread opened

        def traced(*args: Any) -> Any:
            result = function(env(), *args)
            # JAX traces only where it has no program, and compiles next. The cache is opened
            # between the two: one thread at a time may have it open, and the trace runs code of
            # the user, who may wait for another thread. It is closed when the call ends.
            compilation = compilation_within(env())
            after_trace = getattr(self._here, "after_trace", None)
            if compilation is not None and after_trace is not None:
                what = f"{function.__module__.rpartition('.')[2]} of {env().name}"
                after_trace.enter_context(compile_cache(compilation.cache_dir, what))
            return result

        self._jitted: Any = jax.jit(traced, static_argnums=static)

    def __call__(self, *args: Any) -> Any:
        with ExitStack() as self._here.after_trace:
            try:
                return self._jitted(*copy_numpy(args))
            finally:
                self._here.after_trace = None

    def eval_shape(self, *args: Any) -> Any:
        """Shapes and dtypes of the result."""
        return self._jitted.eval_shape(*args)
