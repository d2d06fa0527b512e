"""`call_host`: one ordered call of the host from within a program of JAX."""

from collections.abc import Callable
from typing import Any

import jax
from jax.experimental import io_callback


def call_host(function: Callable[..., Any], types: Any, *args: Any) -> Any:
    """Call the host in order, from within a program of JAX."""

    @jax.custom_batching.custom_vmap
    def call(*args: Any) -> Any:
        return io_callback(function, types, *args, ordered=True)

    @call.def_vmap
    def refuse_vmap(*_: Any) -> Any:
        raise TypeError(
            "HostBatch: expected a call without `vmap`, since each simulator has one state; got a "
            "mapped one. Build a batch with more slots."
        )

    differentiable: Any = jax.custom_jvp(call)

    @differentiable.defjvp
    def refuse_grad(*_: Any) -> Any:
        raise TypeError(
            "HostBatch: expected a call without `grad`, since a simulator on the host has no "
            "derivative. Use `jax.lax.stop_gradient` on its actions."
        )

    return differentiable(*args)
