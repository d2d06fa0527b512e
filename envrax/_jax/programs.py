"""Compiled functions, and the types of their arguments and results."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast
from weakref import finalize, ref

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import JaxprEqn
from jax.sharding import NamedSharding

from envrax._jax.cache import CacheDir, compile_cache
from envrax._jax.keys import key_types


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
    """

    def __init__(
        self,
        function: Callable[..., Any],
        donate: tuple[int, ...] = (),
        layout: NamedSharding | None = None,
    ) -> None:
        self._arguments = function, donate, layout
        # A new `partial`, because JAX shares traces between equal functions.
        self._jitted: Any = jax.jit(
            partial(function), donate_argnums=donate, out_shardings=cast(Any, layout)
        )

    def __call__(self, *args: Any) -> Any:
        return self._jitted(*args)

    def trace(self, *args: Any) -> Any:
        """
        Trace for arguments like these, without running. A later call reuses the trace.

        Returns
        -------
        jax.stages.Traced
            Its `out_info` has the shapes and dtypes of the results.
        """
        return self._jitted.trace(*args)

    def compile(self, *args: Any) -> Any:
        """
        Compile for arguments like these, without running; shapes and dtypes of the result.

        A function that closes over traced values is part of the caller's program: nothing is done.
        """
        traced = self.trace(*args)
        if is_traced(traced.jaxpr.consts):
            return traced.out_info
        shardings = traced.lower().compile().output_shardings
        return jax.tree.map(typed, traced.out_info, shardings)

    def __reduce__(self) -> tuple[Any, ...]:
        return Compiled, self._arguments


class PerObject:
    """
    What `make` makes of each object, kept by its identity and freed with it.

    `make` gets a weak reference; what it returns must not hold the object.
    """

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make, self._made = make, dict[int, Any]()

    def __call__(self, of: Any) -> Any:
        if id(of) not in self._made:
            self._made[id(of)] = self._make(ref(of))
            finalize(of, self._made.pop, id(of), None).atexit = False
        return self._made[id(of)]


def program_per_env(function: Callable[..., Any], *static: int) -> Callable[..., Any]:
    """`function(env, *args)` under `jit`, with programs for each environment."""

    def program(env: Any) -> Any:
        return jax.jit(lambda *args: function(env(), *args), static_argnums=static)

    programs = PerObject(program)
    return cast(Any, lambda env, *args: programs(env)(*args))


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
    with compile_cache(cache_dir):
        step.compile(*arguments(reset.compile(typed(key_types()[0], layout))))


def output_types(function: Callable[[jax.Array], Any], layout: Any = None) -> Any:
    """Shapes and dtypes of the result of a function of a PRNG key, such as `space.sample`."""
    return jax.tree.map(lambda x: typed(x, layout), jax.eval_shape(function, key_types()[0]))


def typed(x: Any, layout: Any) -> jax.ShapeDtypeStruct:
    """Shape and dtype of an array, and its sharding if it lies on a mesh."""
    layout = layout if isinstance(layout, NamedSharding) else None
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=layout)


def is_traced(tree: Any) -> bool:
    """Whether any leaf is a tracer."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def equations(program: Any) -> Iterator[JaxprEqn]:
    """All equations of a jaxpr, those of the jaxprs in it too."""
    for eqn in getattr(program, "jaxpr", program).eqns:
        yield eqn
        for value in eqn.params.values():
            for item in cast(Any, value) if isinstance(value, tuple | list) else (value,):
                if hasattr(getattr(item, "jaxpr", item), "eqns"):
                    yield from equations(item)


def origin(program: Any, var: Any) -> Any:
    """The variable of a jaxpr that `var` is a copy of, through calls such as `jit` and `remat`."""
    for eqn in program.eqns:
        if var in eqn.outvars and eqn.primitive.name in ("jit", "pjit", "checkpoint", "remat2"):
            inner = getattr(eqn.params["jaxpr"], "jaxpr", eqn.params["jaxpr"])
            source = origin(inner, inner.outvars[eqn.outvars.index(var)])
            if source in inner.invars:
                return origin(program, eqn.invars[inner.invars.index(source)])
    return var


def is_inside_jit() -> bool:
    """Whether the caller is traced by `jit` or by a loop, where each operation gives a tracer."""
    return isinstance(jax.device_put(np.int32(0)), Tracer)


def strong(x: Any) -> jax.Array:
    """
    A strongly typed JAX array.

    A weakly typed output, fed back in, would be another signature, and so a second program.
    """
    x = jnp.asarray(x)
    weak = cast(bool, getattr(x, "weak_type", False))  # typed keys have no such attribute
    return jax.lax.convert_element_type(x, x.dtype) if weak else x
