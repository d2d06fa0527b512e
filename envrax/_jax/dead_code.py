"""Which arguments of a program are used. JAX has no public function for it."""

from typing import Any

from jax.interpreters import partial_eval


def arguments_read(program: Any) -> list[bool]:
    """Whether any output of a closed jaxpr depends on it, for each of its arguments."""
    jaxpr = program.jaxpr
    return partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[1]
