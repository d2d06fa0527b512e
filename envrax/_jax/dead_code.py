"""What of a program its outputs depend on. JAX has no public function for it."""

from typing import Any

import jax
from jax.interpreters import partial_eval


def arguments_read(program: Any) -> list[bool]:
    """Whether any output of a closed jaxpr depends on it, for each of its arguments."""
    jaxpr = program.jaxpr
    return partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[1]


def without_dead_code(program: Any) -> tuple[Any, list[Any]]:
    """The jaxpr of what the outputs of a closed jaxpr depend on, and the constants in it."""
    jaxpr = program.jaxpr
    used, _ = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    read = {id(x) for eqn in used.eqns for x in eqn.invars} | {id(x) for x in used.outvars}
    pairs = zip(jaxpr.constvars, program.consts, strict=True)
    return used, [*(value for var, value in pairs if id(var) in read), *_constants_within(used)]


def _constants_within(jaxpr: Any) -> list[Any]:
    """The constants of the programs that a jaxpr calls."""
    found: list[Any] = []
    for eqn in jaxpr.eqns:
        for inner in jax.tree.leaves([*eqn.params.values()]):
            if hasattr(inner, "eqns"):
                found += [*getattr(inner, "consts", ()), *_constants_within(inner)]
    return found
