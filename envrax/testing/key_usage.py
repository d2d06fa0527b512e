"""How a function uses PRNG keys, read from its jaxpr."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
import numpy as np
from jax.extend import core

from envrax._jax.jaxprs import (
    bind,
    branches,
    called_program,
    draws_random_bits,
    equations,
    interpret,
    selects,
)
from envrax._jax.keys import is_key
from envrax.testing.pytrees import to_numpy

_INDEXES = "dynamic_slice", "gather"  # by numbers that are known when the program runs
_BATCH_SIZE = 8191  # no array of keys in an environment has this size


def draws_from_a_fixed_key(function: Callable[..., Any], episodes: list[Any]) -> bool:
    """
    Whether a function draws random numbers from a key that does not depend on the episode.

    `episodes` are its arguments, of episodes with other keys. The function is traced under `vmap`
    over the keys among the arguments, and over what differs between episodes, which a count of
    steps does not. A key that depends on them then has a batch axis, or, where slots are reset in
    chunks, other bits for the second episode.
    """
    args, other, *_ = episodes
    shapes, structure = cast(Any, jax.tree.flatten(jax.eval_shape(lambda: args)))
    rows = zip(*map(jax.tree.leaves, episodes), strict=True)
    axes = [None if not is_key(x) and _same_bits(x, *others) else 0 for x, *others in rows]
    batch = [
        x if axis is None else jax.ShapeDtypeStruct((_BATCH_SIZE, *x.shape), x.dtype)
        for x, axis in zip(shapes, axes, strict=True)
    ]

    def called(*leaves: Any) -> Any:
        return function(*structure.unflatten(leaves))

    try:
        program = jax.make_jaxpr(jax.vmap(called, axes))(*batch)
    except Exception:  # `vmap_agrees` reports a function that does not run under `vmap`
        return False
    keys = [eqn.invars[0].aval for eqn in equations(program) if draws_random_bits(eqn)]
    if all(_BATCH_SIZE in cast(Any, key).shape for key in keys):
        return False
    mapped = jax.vmap(function)
    drawn = [drawn_keys(mapped, *jax.tree.map(lambda x: x[None], x)) for x in (args, other)]
    return bool(drawn[0] & drawn[1])


def _same_bits(*values: Any) -> bool:
    return len({to_numpy(x).tobytes() for x in values}) == 1


def reused_key(function: Callable[..., Any], *args: Any) -> Exception | None:
    """
    The error of JAX's key checker if a function uses a key twice; None if it does not.

    JAX's checker counts a key selected by `jnp.where` as used if one of the candidates is used. It
    therefore rejects a frame skip, a loop over `state = where(done, state, next_state)`, although
    no key is used twice there. It counts all keys of an array as used where one is, `keys[i]` with
    an `i` that it does not know. A rejected function is checked again. The second check counts each
    key that is selected or taken so as a new key, unless all candidates are the same key. So it
    misses one case: that key was used before.
    """
    error = _key_reuse_error(function, *args)
    if error is None:
        return None
    program = jax.make_jaxpr(function)(*args)
    chosen_is_new = partial(_run, program, _new_if_chosen)
    return error if _key_reuse_error(chosen_is_new, *jax.tree.leaves(args)) else None


def drawn_keys(function: Callable[..., Any], *args: Any) -> set[bytes]:
    """
    The bits of each key from which a call draws random numbers.

    The call runs compiled, without what does not lead to a key.
    """
    drawn: set[bytes] = set()

    def record(bits: Any) -> None:
        drawn.update(key.tobytes() for key in np.reshape(bits, (-1, np.shape(bits)[-1])))

    def recorded(eqn: Any, inputs: list[Any]) -> None:
        if draws_random_bits(eqn):
            jax.debug.callback(record, jax.random.key_data(inputs[0]))

    program = jax.make_jaxpr(function)(*args)
    if not any(map(draws_random_bits, equations(program))):
        return drawn

    def run(leaves: list[Any]) -> None:
        _run(program, recorded, *leaves)

    jax.jit(run)(jax.tree.leaves(args))
    jax.effects_barrier()
    return drawn


def _key_reuse_error(function: Callable[..., Any], *args: Any) -> Exception | None:
    try:
        with jax.debug_key_reuse(True):
            jax.eval_shape(jax.jit(function), *args)
    except jax.errors.KeyReuseError as error:
        return error
    return None


def _new_if_chosen(eqn: Any, inputs: list[Any]) -> list[Any] | None:
    """The result of a `jnp.where` on keys, or of `keys[i]`: new keys."""
    if eqn.primitive.name in _INDEXES and is_key(inputs[0]):
        return bind(eqn, [jax.random.clone(inputs[0]), *inputs[1:]])
    if not (selects(eqn) and is_key(inputs[1])):
        return None
    same = all(x is inputs[1] for x in inputs[1:])
    return [inputs[1] if same else jax.random.clone(inputs[1])]


def _run(program: Any, special: Callable[[Any, list[Any]], Any], *args: Any) -> list[Any]:
    """Run a jaxpr; where `special(equation, inputs)` is not None, it is the equation's result."""

    def results(eqn: Any, inputs: list[Any]) -> list[Any]:
        called = called_program(eqn)
        if called is not None:  # inlined, so that the same key stays the same object
            return _run(called, special, *inputs)
        out = special(eqn, inputs)
        if out is not None:
            return out
        own = {name: _rewritten(x, special) for name, x in eqn.params.items()}
        return bind(eqn, inputs, **(own if branches(eqn) else {}))

    return interpret(program, args, results)


def _rewritten(param: Any, special: Any) -> Any:
    """The parameter of a loop or a `cond`, whose programs run with `special` too."""
    if isinstance(param, tuple):
        return tuple(_rewritten(x, special) for x in cast(tuple[Any, ...], param))
    if isinstance(param, core.ClosedJaxpr):
        return jax.make_jaxpr(partial(_run, param, special))(*param.in_avals)
    return param
