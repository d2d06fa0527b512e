"""`Compiled`: a function under `jax.jit`, which can be compiled ahead."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
from jax.core import Tracer
from jax.sharding import NamedSharding

from envrax._jax import forks
from envrax._jax.cache import CacheDir, compile_cache
from envrax._jax.keys import key_types
from envrax._jax.types import with_shardings


class Compiled:
    """
    A function under `jax.jit` that shares no compiled program with an equal function.

    A pickle or a deep copy leaves the program behind.

    Parameters
    ----------
    function : callable
        A pure function of pytrees.
    donate : tuple of int
        Positions of arguments whose buffers the outputs may take over.
    layout : jax.sharding.NamedSharding, optional
        The sharding of all results.
    static : tuple of int
        Positions of arguments that are constants of a program.
    jit : bool, default True
        False leaves the function as it is.

    Attributes
    ----------
    call : callable
        The function under `jax.jit`, to call it with less in between.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        donate: tuple[int, ...] = (),
        layout: NamedSharding | None = None,
        static: tuple[int, ...] = (),
        jit: bool = True,
    ) -> None:
        self._arguments = function, donate, layout, static, jit
        self.call: Any = function
        if jit:
            # A new `partial`, because JAX shares traces between equal functions.
            self.call = jax.jit(
                partial(function),
                donate_argnums=donate,
                out_shardings=cast(Any, layout),
                static_argnums=static,
            )

    def __call__(self, *args: Any) -> Any:
        return self.call(*args)

    def trace(self, *args: Any) -> Any:
        """
        Trace for arguments like these, without running. A later call reuses the trace.

        Returns
        -------
        jax.stages.Traced
            Its `out_info` has the shapes and dtypes of the results.
        """
        return self.call.trace(*args)

    def compile(self, cache_dir: CacheDir, *args: Any) -> Any:
        """
        Compile for arguments like these, without running; shapes and dtypes of the result.

        A function that closes over traced values is part of the caller's program: nothing is done.
        """
        if forks.jax_hangs:
            raise forks.fork_error("envrax", "compile")
        traced = self.trace(*args)  # runs code of the user, who may wait for another thread
        if any([isinstance(x, Tracer) for x in traced.jaxpr.consts]):
            return traced.out_info
        owner: Any = getattr(self._arguments[0], "__self__", None)
        what = f"{traced.fun_name.strip('_')} of {getattr(owner, 'name', 'a fleet')}"
        with compile_cache(cache_dir, what):
            compiled = traced.lower().compile()
        return with_shardings(traced.out_info, compiled.output_shardings)

    def __reduce__(self) -> tuple[Any, ...]:
        return Compiled, self._arguments


def compile_pair(
    reset: Compiled,
    step: Compiled,
    arguments: Callable[[Any], tuple[Any, ...]],
    cache_dir: CacheDir,
    layout: NamedSharding | None = None,
) -> None:
    """
    Compile `reset(rng)` and `step(*arguments)` for typed keys, without running them.

    Parameters
    ----------
    reset, step : Compiled
        The two functions.
    arguments : callable
        From the types of the results of `reset` to those of the arguments of `step`.
    cache_dir : path-like or None
        See `compile_cache`.
    layout : jax.sharding.NamedSharding, optional
        The sharding of the key.
    """
    key = key_types()[0]
    if layout is not None:
        key = with_shardings(key, layout)
    step.compile(cache_dir, *arguments(reset.compile(cache_dir, key)))
