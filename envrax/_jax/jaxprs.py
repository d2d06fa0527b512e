"""Reading jaxprs: the one file that knows JAX's primitives."""

from typing import Any, cast

from jax.extend.core import JaxprEqn
from jax.extend.core.primitives import jit_p, remat_p, scan_p, while_p


def equations(program: Any) -> list[JaxprEqn]:
    """All equations of a jaxpr, those of the jaxprs in it too."""
    found: list[JaxprEqn] = []
    programs = [program]
    while programs:
        program = programs.pop()
        for eqn in getattr(program, "jaxpr", program).eqns:
            found.append(eqn)
            for value in eqn.params.values():
                items: Any = cast(Any, value) if isinstance(value, tuple | list) else (value,)
                programs += [x for x in items if hasattr(getattr(x, "jaxpr", x), "eqns")]
    return found


def has_loop(program: Any) -> bool:
    """Whether a jaxpr has a loop or a call to the host in it, at any depth."""
    primitives = [eqn.primitive for eqn in equations(program)]
    # JAX exports no objects for its three primitives of callbacks.
    return any([p in (while_p, scan_p) or p.name.endswith("callback") for p in primitives])


def origin(program: Any, var: Any) -> Any:
    """The variable of a jaxpr that `var` is a copy of, through calls of `jit` and `remat`."""
    for eqn in program.eqns:
        if var in eqn.outvars and eqn.primitive in (jit_p, remat_p):
            inner = getattr(eqn.params["jaxpr"], "jaxpr", eqn.params["jaxpr"])
            source = origin(inner, inner.outvars[eqn.outvars.index(var)])
            if source in inner.invars:
                return origin(program, eqn.invars[inner.invars.index(source)])
    return var
