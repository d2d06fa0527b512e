"""
Threefry, which makes JAX's random numbers, written out on a CPU: the same bits without a loop.

On a CPU, JAX computes the hash by a loop of five rounds. For the few slots that a chunk of
`Compact` resets, starting the parts of that loop takes longer than the arithmetic in it. Written
out, a hash is compiled as one piece. Only `Compact` uses it: elsewhere batches are large, and
the programs of users stay as JAX makes them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import JaxprEqn, Literal, jaxpr_as_fun
from jax.extend.core.primitives import (
    random_bits_p,
    random_fold_in_p,
    random_split_p,
    threefry2x32_p,
)
from jax.extend.random import threefry_prng_impl

from envrax._jax.jaxprs import CALLS, bind

_THREEFRY: Any = threefry_prng_impl
# JAX's own functions of the bits of one key, which call the hash. They hold all that depends on
# JAX's settings, such as `jax_threefry_partitionable`.
_DRAWS: dict[Any, Callable[..., Any]] = {
    random_bits_p: _THREEFRY.random_bits,
    random_fold_in_p: _THREEFRY.fold_in,
    random_split_p: _THREEFRY.split,
}
_RANDOM = {*_DRAWS, threefry2x32_p}
_PLAIN: Any = type(threefry2x32_p)  # not of a class that is bound in its own way


def written_out_on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """
    `function`, of which a program for a CPU has the hashes of its draws written out.

    Only derivatives are others: functions that draw, and have rules of their own for derivatives,
    lose these rules.
    """

    def on_platform(*args: Any) -> Any:
        program, result = cast(Any, jax.make_jaxpr(function, return_shape=True)(*args))
        ways: Any = dict(cpu=partial(_written_out, program), default=jaxpr_as_fun(program))
        leaves = cast(Any, lax.platform_dependent(*jax.tree.leaves(args), **ways))
        return jax.tree.unflatten(jax.tree.structure(result), leaves)

    return on_platform


def _draws(program: Any) -> bool:
    """Whether a jaxpr draws, or calls one that does."""
    for eqn in getattr(program, "jaxpr", program).eqns:
        called = CALLS.get(eqn.primitive)
        if eqn.primitive in _RANDOM or (called and _draws(eqn.params[called])):
            return True
    return False


def _written_out(program: Any, *inputs: Any) -> list[Any]:
    """The outputs of a jaxpr: its draws written out, also in calls, and the rest as JAX does."""
    jaxpr = getattr(program, "jaxpr", program)
    values = [*getattr(program, "consts", ()), *inputs]
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], values, strict=True))
    for eqn in jaxpr.eqns:
        called = CALLS.get(eqn.primitive)
        values = list[Any]()
        for x in eqn.invars:  # a loop, without a call for each: it runs whenever a reset is traced
            values.append(x.val if isinstance(x, Literal) else known[x])
        with eqn.ctx.manager:  # the settings that JAX had where this was traced
            if eqn.primitive is threefry2x32_p:
                # What is computed from the bits stays a piece of its own: as JAX makes it, and not
                # with the hash once for each of its uses.
                found = lax.optimization_barrier(_hash(*jnp.broadcast_arrays(*values)))
            elif eqn.primitive in _DRAWS and jax.random.key_impl(values[0]) == "threefry2x32":
                found = [_drawn(eqn, values)]
            elif called and _draws(eqn.params[called]):
                found = _written_out(eqn.params[called], *values)
            elif type(eqn.primitive) is _PLAIN:  # `bind`, without a call
                found = eqn.primitive.bind(*values, **eqn.params)
                found = found if eqn.primitive.multiple_results else [found]
            else:
                found = bind(eqn, values)
        known.update(zip(eqn.outvars, found, strict=True))
    return [x.val if isinstance(x, Literal) else known[x] for x in jaxpr.outvars]


def _drawn(eqn: JaxprEqn, values: list[Any]) -> Any:
    """The result of a draw from keys."""
    keys, *data = jnp.broadcast_arrays(*values)
    of_each = partial(_DRAWS[eqn.primitive], **eqn.params)
    for _ in keys.shape:
        of_each = jax.vmap(of_each)
    args = jax.random.key_data(keys), *data
    (bits,) = _written_out(jax.make_jaxpr(of_each)(*args), *args)
    if eqn.primitive is random_bits_p:
        return bits
    return cast(Any, jax.random.wrap_key_data(bits, impl="threefry2x32"))


@partial(jax.jit, inline=True)
def _hash(
    key1: jax.Array, key2: jax.Array, x1: jax.Array, x2: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Threefry-2x32 with 20 rounds, by Salmon et al. (2011)."""
    keys = key1, key2, key1 ^ key2 ^ np.uint32(0x1BD11BDA)
    x1, x2 = x1 + key1, x2 + key2
    for i in range(5):
        for turn in (17, 29, 16, 24) if i % 2 else (13, 15, 26, 6):
            x1 = x1 + x2
            x2 = x1 ^ (x2 << np.uint32(turn) | x2 >> np.uint32(32 - turn))
        x1 = x1 + keys[(i + 1) % 3]
        x2 = x2 + keys[(i + 2) % 3] + np.uint32(i + 1)
    return x1, x2
