"""What of a program its outputs depend on. JAX has no public function for it."""

from typing import Any

from jax.extend.core import ClosedJaxpr
from jax.interpreters import partial_eval


def arguments_read(program: Any) -> list[bool]:
    """Whether any output of a closed jaxpr depends on it, for each of its arguments."""
    return partial_eval.dce_jaxpr(program.jaxpr, [True] * len(program.jaxpr.outvars))[1]


def without_dead_code(program: Any, n_outputs: int | None = None) -> tuple[Any, list[bool]]:
    """
    The part of a closed jaxpr that its first outputs depend on, and which of its inputs it has.
    """
    jaxpr = program.jaxpr
    n = len(jaxpr.outvars)
    used, is_read = partial_eval.dce_jaxpr(jaxpr, [i < (n_outputs or n) for i in range(n)])
    read = {id(x) for eqn in used.eqns for x in eqn.invars} | {id(x) for x in used.outvars}
    pairs = [x for x in zip(used.constvars, program.consts, strict=True) if id(x[0]) in read]
    used = used.replace(constvars=[variable for variable, _ in pairs])
    return ClosedJaxpr(used, [value for _, value in pairs]), is_read
