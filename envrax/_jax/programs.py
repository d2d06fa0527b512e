"""Compiled functions: a pair of `reset` and `step` that is traced, and compiled, together."""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.sharding import NamedSharding

from envrax._jax.cache import CacheDir, compile_cache
from envrax._jax.keys import key_types
from envrax._jax.mesh import in_shard_map

_CONFIG: Any = jax.config  # its options are not declared


class Compiled:
    """
    A function under `jax.jit`, with a program of its own.

    A pickle or a deep copy leaves the program behind.

    Parameters
    ----------
    function : callable
        A pure function of pytrees.
    donate : tuple of int
        Positions of arguments whose buffers the outputs may take over.
    shardings : tuple, optional
        How all arguments, and all results, are laid out over devices.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        donate: tuple[int, ...] = (),
        shardings: tuple[Any, Any] | None = None,
    ) -> None:
        self._arguments = function, donate, shardings
        given, made = shardings or (None, None)
        layout: Any = {} if shardings is None else dict(in_shardings=given, out_shardings=made)
        # A `partial` of its own, because JAX shares what it traced between equal functions.
        self._jitted: Any = jax.jit(partial(function), donate_argnums=donate, **layout)

    def __call__(self, *args: Any) -> Any:
        return self._jitted(*args)

    def trace(self, *args: Any) -> Any:
        """
        Trace for arguments like these, without running. A later call takes what was traced.

        Returns
        -------
        jax.stages.Traced
            Its `out_info` is what the function would return, as shapes and dtypes.
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


class CompiledEnv:
    """
    `reset` and `step` of an environment or a batch, compiled.

    The first call of either one traces both, so that both see the environment as it is then.

    Parameters
    ----------
    reset, step : callable
        `reset(rng)` and `step(*args)`.
    next_step : callable
        From what `reset` returned to the arguments of a step.
    donate : bool
        Whether a step may take over the buffers of its first argument.
    shardings : tuple, optional
        How the key of a reset is laid out over devices, and how all else is.
    """

    def __init__(
        self,
        reset: Callable[..., Any],
        step: Callable[..., Any],
        next_step: Callable[[Any], tuple[Any, ...]],
        donate: bool = False,
        shardings: tuple[Any, Any] | None = None,
    ) -> None:
        both = shardings and (shardings[1], shardings[1])
        self._reset = Compiled(reset, (), shardings)
        self._step = Compiled(step, (0,) if donate else (), both)
        self._next_step, self._is_traced, self._shardings = next_step, False, shardings
        self._arguments = reset, step, next_step, donate, shardings

    def reset(self, rng: jax.Array) -> Any:
        if not self._is_traced:
            self._trace_both(rng)
        return self._reset(rng)

    def step(self, *args: Any) -> Any:
        if not self._is_traced:
            self._trace_both(key_types()[0])
        return self._step(*args)

    def _trace_both(self, rng: Any) -> None:
        # In a `shard_map` a real step has arguments of other types, and what the leak checker
        # raises must not be suppressed.
        if in_shard_map() or _CONFIG.jax_check_tracer_leaks:
            return
        self._is_traced = True
        # An error here is raised again by the call itself.
        with contextlib.suppress(Exception):
            self._step.trace(*self._next_step(self._reset.trace(rng).out_info))

    def compile(self, cache_dir: CacheDir, compiled: Callable[[], Any] = lambda: None) -> None:
        """
        Compile both for each kind of PRNG key, without running them; calls then compile nothing.

        Parameters
        ----------
        cache_dir : path-like or None
            See `compile_cache`.
        compiled : callable
            Called after each program, of which there are two for each kind of key.
        """
        self._is_traced = True
        with compile_cache(cache_dir):
            for rng in key_types():
                if self._shardings is not None:
                    rng = typed(rng, self._shardings[0])
                returned = self._reset.compile(rng)
                compiled()
                self._step.compile(*self._next_step(returned))
                compiled()

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledEnv, self._arguments


def next_step(sample: Callable[[jax.Array], Any], returned: Any) -> tuple[Any, Any]:
    """The types of a step's arguments, from what `reset` returned and the actions' `sample`."""
    _, state = returned
    return state, output_types(sample)


def output_types(function: Callable[[jax.Array], Any]) -> Any:
    """Shapes and dtypes of what a function of a PRNG key returns, such as `space.sample`."""
    out = jax.eval_shape(function, key_types()[0])
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), out)


def typed(x: Any, layout: Any) -> jax.ShapeDtypeStruct:
    """Shape and dtype of an array, and how it is laid out if that is over a mesh."""
    layout = layout if isinstance(layout, NamedSharding) else None
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=layout)


def require_not_donated(state: Any, who: str) -> None:
    """Refuse a state whose buffers an earlier step took over."""
    leaves = [x for x in jax.tree.leaves(state) if isinstance(x, jax.Array)]
    if any(x.is_deleted() for x in leaves if not isinstance(x, Tracer)):
        raise RuntimeError(
            f"{who}: expected the newest state; got one that was donated to an earlier step "
            "(`donate=True`). Use the state which that step returned, or do not donate."
        )


def is_traced(tree: Any) -> bool:
    """Whether any leaf is a tracer."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def strong(x: Any) -> jax.Array:
    """
    A strongly typed JAX array.

    A weakly typed output, fed back in, would be another signature, and so a second program.
    """
    x = jnp.asarray(x)
    weak = cast(bool, getattr(x, "weak_type", False))  # typed keys have no such attribute
    return jax.lax.convert_element_type(x, x.dtype) if weak else x
