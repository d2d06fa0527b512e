"""What of a program follows from some of its inputs; the rest of it in a form to compare."""

import itertools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from jax.extend.core import JaxprEqn, Literal

from envrax._jax.dead_code import without_dead_code
from envrax._jax.jaxprs import called_program, constants, programs_of


class Unknown(NamedTuple):
    """A value that depends on an input that is not known, by its number."""

    number: int


class KnownPart(NamedTuple):
    """
    A program, computed as far as known inputs go.

    Attributes
    ----------
    outputs : list of Any
        The results; an `Unknown` for one that depends on another input.
    read : list of Any
        The computed values that the rest of the program reads.
    rest : list of str
        The rest of the program without these values, one operation each.
    """

    outputs: list[Any]
    read: list[Any]
    rest: list[str]


def known_part(program: Any, inputs: Sequence[Any], n_outputs: int | None = None) -> KnownPart:
    """
    Compute what follows from some inputs of a program.

    Parameters
    ----------
    program : ClosedJaxpr
        The program.
    inputs : sequence of Any
        The value of each input, which may be traced; None where it is not known.
    n_outputs : int, optional
        How many results are wanted, from the first one; all of them by default.
    """
    used, is_read = without_dead_code(program, n_outputs)
    numbers = itertools.count()
    given = [Unknown(next(numbers)) if x is None else x for x in inputs]
    read: list[Any] = []
    rest: list[str] = []

    def run(program: Any, values: Sequence[Any]) -> list[Any]:
        jaxpr = getattr(program, "jaxpr", program)
        known = dict(zip(jaxpr.constvars, getattr(program, "consts", ()), strict=True))
        known.update(zip(jaxpr.invars, values, strict=True))

        def value(x: Any) -> Any:
            return x.val if isinstance(x, Literal) else known[x]

        for eqn in jaxpr.eqns:
            known.update(zip(eqn.outvars, results(eqn, [*map(value, eqn.invars)]), strict=True))
        return [*map(value, jaxpr.outvars)]

    def results(eqn: JaxprEqn, values: list[Any]) -> list[Any]:
        if (called := called_program(eqn)) is not None:
            return run(called, values)
        unknown = [x for x in values if isinstance(x, Unknown)]
        if not eqn.effects and not unknown:
            computed = cast(Any, eqn.primitive.bind(*values, **eqn.params))
            return [*computed] if eqn.primitive.multiple_results else [computed]
        read.extend(x for x in values if not isinstance(x, Unknown))
        read.extend(x for inner in programs_of(eqn) for x in constants(inner))
        names = [f"v{x.number}" if isinstance(x, Unknown) else "known" for x in values]
        how = re.sub(r"0x[0-9a-f]+", "", str(eqn.params))
        rest.append(f"{eqn.primitive} {how} {' '.join(names)}")
        return [Unknown(next(numbers)) for _ in eqn.outvars]

    outputs = run(used, [x for x, is_used in zip(given, is_read, strict=True) if is_used])
    return KnownPart(outputs, read, rest)
