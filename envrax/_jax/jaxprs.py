"""Walks through jaxprs. The one file that knows the names of JAX's primitives."""

from collections.abc import Iterator
from typing import Any, cast

from jax.extend.core import JaxprEqn


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
