"""Reading jaxprs: the one file that knows JAX's primitives."""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, cast

import jax.numpy as jnp
from jax.extend.core import JaxprEqn, Literal
from jax.extend.core.primitives import (
    cond_p,
    custom_jvp_call_p,
    custom_vjp_call_p,
    jit_p,
    random_bits_p,
    random_gamma_p,
    remat_p,
    scan_p,
    select_n_p,
    while_p,
)

# Calls of functions with rules of their own for derivatives.
WITH_DERIVATIVE_RULES = custom_jvp_call_p, custom_vjp_call_p
# The parameter that holds the program of a call.
CALLS = {jit_p: "jaxpr", remat_p: "jaxpr", **dict.fromkeys(WITH_DERIVATIVE_RULES, "call_jaxpr")}
_NAME = attrgetter("primitive.name")
_OF_REFS = {"new_ref", "get", "swap", "addupdate"}


def within(eqns: Iterable[JaxprEqn]) -> tuple[list[JaxprEqn], list[Any]]:
    """Equations with those that they hold, such as the body of a loop; and the constants there."""
    found, constants = [*eqns], list[Any]()
    for eqn in found:
        for value in eqn.params.values():
            items: Any = cast(Any, value) if isinstance(value, tuple | list) else (value,)
            for x in items:
                held = getattr(getattr(x, "jaxpr", x), "eqns", None)
                if held is not None:
                    found += held
                    constants += getattr(x, "consts", ())
    return found, constants


def equations(program: Any) -> list[JaxprEqn]:
    """All equations of a jaxpr, those of the jaxprs in it too."""
    return within(getattr(program, "jaxpr", program).eqns)[0]


def constants(program: Any) -> list[Any]:
    """The constants of a jaxpr, and of those in it."""
    return [*getattr(program, "consts", ()), *within(getattr(program, "jaxpr", program).eqns)[1]]


def has_loop(program: Any) -> bool:
    """Whether a jaxpr has a loop or a call to the host in it, at any depth."""
    for eqn in equations(program):
        # JAX exports no objects for its three primitives of callbacks.
        if eqn.primitive in (while_p, scan_p) or eqn.primitive.name.endswith("callback"):
            return True
    return False


def has_refs(program: Any) -> bool:
    """Whether a jaxpr makes, reads or writes a `jax.Ref`, at any depth."""
    return not _OF_REFS.isdisjoint(map(_NAME, equations(program)))


def calls_host(program: Any) -> bool:
    """Whether a jaxpr calls the host for a value, at any depth."""
    names = {*map(_NAME, equations(program))}
    return any(name.endswith("callback") and name != "debug_callback" for name in names)


def changes_host(program: Any) -> bool:
    """Whether a jaxpr has an `io_callback` that returns a value, at any depth."""
    return any(eqn.primitive.name == "io_callback" and eqn.outvars for eqn in equations(program))


def largest_eps(programs: Iterable[Any]) -> float:
    """The largest `eps` of the float dtypes in jaxprs, at any depth; 0 if there is no float."""
    eqns = [eqn for program in programs for eqn in equations(program)]
    dtypes: set[Any] = {getattr(var.aval, "dtype", None) for eqn in eqns for var in eqn.outvars}
    floats = [dtype for dtype in dtypes if dtype and jnp.issubdtype(dtype, jnp.floating)]
    return max([float(jnp.finfo(dtype).eps) for dtype in floats], default=0.0)


def draws_random_bits(eqn: JaxprEqn) -> bool:
    """Whether an equation draws from a PRNG key, its first input."""
    return eqn.primitive in (random_bits_p, random_gamma_p)


def selects(eqn: JaxprEqn) -> bool:
    """Whether an equation is a `jnp.where`: a predicate, then the candidates."""
    return eqn.primitive is select_n_p


def is_cond(eqn: JaxprEqn) -> bool:
    """Whether an equation is a `cond` or `switch`: an index, then operands of its branches."""
    return eqn.primitive is cond_p


def branches(eqn: JaxprEqn) -> bool:
    """Whether an equation is a loop or a `cond`, whose parameters hold programs."""
    return eqn.primitive in (scan_p, while_p, cond_p)


def scan_sizes(eqn: JaxprEqn) -> tuple[int, int]:
    """
    The numbers of constants and of carried values of a `scan`, which come first among its inputs.

    The parameters that say so have other names in each version of JAX. What a round takes a row of
    has an axis more outside.
    """
    body = eqn.params["jaxpr"].jaxpr

    def rows(outside: Any, inside: Any) -> int:
        pairs = zip(outside, inside, strict=True)
        return sum([x.aval.shape != y.aval.shape for x, y in pairs])

    n_carry = len(eqn.outvars) - rows(eqn.outvars, body.outvars)
    return len(eqn.invars) - n_carry - rows(eqn.invars, body.invars), n_carry


def called_program(eqn: JaxprEqn) -> Any:
    """The program that a call such as `jit` runs on its inputs; None for other equations."""
    name = CALLS.get(eqn.primitive)
    return eqn.params[name] if name else None


def interpret(
    program: Any,
    inputs: Sequence[Any],
    results: Callable[[JaxprEqn, list[Any]], Iterable[Any]],
    literal: Callable[[Any], Any] = attrgetter("val"),
    consts: Sequence[Any] | None = None,
) -> list[Any]:
    """
    The outputs of a jaxpr on values of any kind, of which `results` makes those of an equation.

    `literal` gives the value of a literal; `consts` are by default the constants themselves.
    """
    jaxpr = getattr(program, "jaxpr", program)
    values = [*(getattr(program, "consts", ()) if consts is None else consts), *inputs]
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], values, strict=True))

    def value(x: Any) -> Any:
        return literal(x) if isinstance(x, Literal) else known[x]

    for eqn in jaxpr.eqns:
        found = results(eqn, [*map(value, eqn.invars)])
        known.update(zip(eqn.outvars, found, strict=True))
    return [*map(value, jaxpr.outvars)]


def bind(eqn: JaxprEqn, values: Iterable[Any], **params: Any) -> list[Any]:
    """The results of an equation on values of JAX, with some parameters changed."""
    primitive: Any = eqn.primitive
    given: Any = primitive.get_bind_params({**eqn.params, **params})
    functions, named = ((), given) if hasattr(given, "keys") else given  # JAX 0.9 gives both
    computed = primitive.bind(*functions, *values, **named)
    return [*computed] if eqn.primitive.multiple_results else [computed]


def origin(program: Any, var: Any) -> Any:
    """The variable of a jaxpr that `var` is a copy of, through calls of `jit` and `remat`."""
    for eqn in program.eqns:
        if var in eqn.outvars and eqn.primitive in (jit_p, remat_p):
            inner = getattr(eqn.params["jaxpr"], "jaxpr", eqn.params["jaxpr"])
            source = origin(inner, inner.outvars[eqn.outvars.index(var)])
            if source in inner.invars:
                return origin(program, eqn.invars[inner.invars.index(source)])
    return var
