"""Uses of PRNG keys in a traced function, read from its jaxpr."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
from jax.extend import core
from jax.extend.core import primitives

from envrax._jax.jaxprs import equations
from envrax._jax.keys import is_key

_BATCH = 8191  # a size that no array of keys in an environment has
_DRAWS = (primitives.random_bits_p, primitives.random_gamma_p)
_BRANCHES = (primitives.scan_p, primitives.while_p, primitives.cond_p)
_CALLS = ("jit", "custom_jvp_call", "custom_vjp_call", "checkpoint")


def draws_from_a_fixed_key(function: Callable[..., Any], *args: Any) -> bool:
    """
    Whether a function draws random numbers from a key that does not depend on its arguments.

    The function is traced under `vmap`, which makes a batch of all that depends on the arguments.
    """
    one = jax.eval_shape(lambda: args)
    batch = jax.tree.map(lambda x: jax.ShapeDtypeStruct((_BATCH, *x.shape), x.dtype), one)
    try:
        traced = jax.make_jaxpr(jax.vmap(function))(*batch)
    except Exception:  # `vmap_agrees` reports what cannot run under `vmap`
        return False
    keys = [eqn.invars[0].aval for eqn in equations(traced) if eqn.primitive in _DRAWS]
    return any(_BATCH not in cast(Any, key).shape for key in keys)


def reused_key(function: Callable[..., Any], *args: Any) -> Exception | None:
    """
    The error of JAX's checker if a function uses a key twice.

    For the checker, a key selected by `jnp.where` is used if one of the candidates is. It therefore
    refuses a frame skip, a loop over `state = where(done, state, next_state)`, which uses no key
    twice. A function that it refuses is checked again, with each selected key as a new key, unless
    all candidates are the same key. This misses only the reuse of a used key that was selected.
    """
    error = _checked(function, *args)
    if error is None:
        return None
    traced = jax.make_jaxpr(function)(*args)
    chosen_is_new = partial(_evaluate, traced)
    return error if _checked(chosen_is_new, *jax.tree.leaves(args)) else None


def _checked(function: Callable[..., Any], *args: Any) -> Exception | None:
    try:
        with jax.debug_key_reuse(True):
            jax.eval_shape(jax.jit(function), *args)
    except jax.errors.KeyReuseError as error:
        return error
    return None


def _evaluate(closed: Any, *args: Any) -> list[Any]:
    """A jaxpr as a function, in which `jnp.where` on keys gives a new key."""
    jaxpr = getattr(closed, "jaxpr", closed)
    consts = getattr(closed, "consts", ())
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))

    def read(x: Any) -> Any:
        return x.val if isinstance(x, core.Literal) else values[x]

    for eqn in jaxpr.eqns:
        inputs = list(map(read, eqn.invars))
        params = eqn.params
        if eqn.primitive.name in _CALLS:  # inlined, so that the same key is the same object
            called = params["jaxpr"] if "jaxpr" in params else params["call_jaxpr"]
            out: Any = _evaluate(called, *inputs)
        elif eqn.primitive is primitives.select_n_p and is_key(inputs[1]):
            same = all(x is inputs[1] for x in inputs[1:])
            out = [inputs[1] if same else jax.random.clone(inputs[1])]
        else:
            if eqn.primitive in _BRANCHES:
                params = {name: _rewritten(value) for name, value in params.items()}
            out = eqn.primitive.bind(*inputs, **params)
            out = out if eqn.primitive.multiple_results else [out]
        values.update(zip(eqn.outvars, out, strict=True))
    return list(map(read, jaxpr.outvars))


def _rewritten(param: Any) -> Any:
    if isinstance(param, tuple):
        return tuple(map(_rewritten, cast(tuple[Any, ...], param)))
    if isinstance(param, core.ClosedJaxpr):
        return jax.make_jaxpr(partial(_evaluate, param))(*param.in_avals)
    return param
