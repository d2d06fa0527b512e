"""What of a program follows from some of its inputs; the rest of it in a form to compare."""

import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn

from envrax._jax.dead_code import without_dead_code
from envrax._jax.jaxprs import bind, called_program, interpret, is_cond, selects, within
from envrax._jax.keys import is_key


class Unknown(NamedTuple):
    """
    A value that depends on an input that is not known.

    Attributes
    ----------
    number : int
        Its place among such values.
    first : int
        The place of the first one that is computed alike.
    value, is_known : array, optional
        The value where it follows all the same: `late | out` is True where `late` is.
    """

    number: int
    first: int
    value: Any = None
    is_known: Any = None


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
    choices : list of int
        The numbers of bools that are not known, of which an operation reads both values: `~out`,
        `where(out, x, y)`. The last ones are the nearest to the results.
    """

    outputs: list[Any]
    read: list[Any]
    rest: list[str]
    choices: list[int]


_TELLS = {"convert_element_type", "eq", "ne", "not", "select_n"}
"""Operations that read both values of a bool; a `cond` reads it as an integer."""


def known_part(
    program: Any,
    inputs: Sequence[Any],
    n_outputs: int | None = None,
    assumed: Mapping[int, bool] = MappingProxyType({}),
) -> KnownPart:
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
    assumed : mapping of int to bool, optional
        The values of `choices`. A bool has the same number whatever those before it are, and a
        number after it means something else.
    """
    used, is_read = without_dead_code(program, n_outputs)
    numbers = itertools.count()
    read: list[Any] = []
    rest: list[str] = []
    choices: dict[int, None] = {}
    computed: dict[Any, list[Any]] = {}
    firsts: dict[Any, int] = {}
    seen: list[Any] = []  # each `id` in a key stays that of one value

    def unknown(like: Any, key: Any, *part: Any) -> Any:
        number = next(numbers)
        x = Unknown(number, firsts.setdefault(key, number), *part)
        if x.first not in assumed:
            return x
        found = _filled(_part(x), like)
        return jnp.where(found.is_known, found.value, assumed[x.first])

    def results_of(eqn: JaxprEqn, values: list[Any]) -> list[Any]:
        if (called := called_program(eqn)) is not None:
            return interpret(called, values, results_of)
        seen.append(values)
        held = within([eqn])[1]
        key = eqn.primitive, str(eqn.params), *map(_identity, values), *map(id, held)
        key = *key, *(object() for _ in eqn.effects)
        left_open = [x for x in values if isinstance(x, Unknown)]
        if not eqn.effects and not left_open:
            if key not in computed:
                computed[key] = bind(eqn, values)
            return computed[key]
        if is_cond(eqn):
            return chosen(eqn, values, key)
        if eqn.primitive.name in _TELLS:
            pairs = zip(eqn.invars, values, strict=True)
            choices.update((x.first, None) for v, x in pairs if _is_open_bool(v.aval, x))
        read.extend(x for x in values if not isinstance(x, Unknown))
        read.extend(held)
        names = [f"v{x.number}" if isinstance(x, Unknown) else "known" for x in values]
        how = re.sub(r"0x[0-9a-f]+", "", str(eqn.params))
        rest.append(f"{eqn.primitive} {how} {' '.join(names)}")
        if (part := _follows(eqn, values)) is not None:
            return [unknown(eqn.outvars[0].aval, (key, 0), *part)]
        read.extend(y for x in left_open for y in _known_of(x))
        return [unknown(v.aval, (key, i)) for i, v in enumerate(eqn.outvars)]

    def chosen(eqn: JaxprEqn, values: list[Any], key: Any) -> list[Any]:
        """The results of a `cond`: those of each branch, of which the first value chooses."""
        by, *operands = values
        rest.append(f"cond {by.number if isinstance(by, Unknown) else 'known'}")
        read.extend(_known_of(by))
        programs = eqn.params["branches"]
        branches = [interpret(program, operands, results_of) for program in programs]
        results: list[Any] = []
        for i, (out, *cases) in enumerate(zip(eqn.outvars, *branches, strict=True)):
            read.extend(y for x in cases for y in _known_of(x))
            parts = [_filled(_part(x), out.aval) for x in cases if not is_key(out.aval)]
            which = _filled(_part(by), eqn.invars[0].aval)
            results.append(unknown(out.aval, (key, i), *_choice(which, parts) if parts else ()))
        return results

    places = enumerate(zip(program.jaxpr.invars, inputs, strict=True))
    given = [unknown(v.aval, i) if x is None else x for i, (v, x) in places]
    needed = [x for x, is_used in zip(given, is_read, strict=True) if is_used]
    return KnownPart(interpret(used, needed, results_of), read, rest, [*choices])


class _Part(NamedTuple):
    """A value, and where it is known: a bool of the same shape."""

    value: Any
    is_known: Any


_MOVES = {"broadcast_in_dim", "concatenate", "reshape", "squeeze"}
"""Operations that only move numbers."""


def _follows(eqn: JaxprEqn, values: list[Any]) -> _Part | None:
    """The result of an operation where it follows from what is known of some of its values."""
    parts = [_part(x) for x in values]
    types: list[Any] = [x.aval for x in (*eqn.invars, *eqn.outvars)]
    if eqn.effects or any(map(is_key, types)) or len(eqn.outvars) != 1 or not any(parts):
        return None
    name, shape = eqn.primitive.name, types[-1].shape
    filled = [_filled(x, t) for x, t in zip(parts, types, strict=False)]

    def value() -> Any:
        return bind(eqn, [x.value for x in filled])[0]

    if name in ("or", "and", "mul"):
        # True decides an `or`; False decides an `and`, and 0 a product.
        decides = [x.is_known & (jnp.asarray(x.value, bool) == (name == "or")) for x in filled]
        decided = functools.reduce(jnp.bitwise_or, decides)
        end = jnp.asarray(name == "or", types[-1].dtype)
        known = functools.reduce(jnp.bitwise_and, [x.is_known for x in filled])
        return _Part(jnp.where(decided, end, value()), decided | known)
    if name == "reduce_or":
        (x,) = filled
        found = jnp.any(x.is_known & x.value, axis=eqn.params["axes"])
        return _Part(found, found | jnp.all(x.is_known, axis=eqn.params["axes"]))
    if selects(eqn):
        return _choice(filled[0], filled[1:])
    if name in _MOVES:
        return _Part(value(), bind(eqn, [x.is_known for x in filled])[0])
    if not all(parts):
        return None
    known = functools.reduce(jnp.bitwise_and, [jnp.all(x.is_known) for x in filled])
    return _Part(value(), jnp.broadcast_to(known, shape))


def _choice(by: _Part, cases: list[_Part]) -> _Part:
    """The case that a value chooses. Without it only what all cases are is known."""
    which = jnp.asarray(by.value, bool) if len(cases) == 2 else by.value
    value, is_known = (jax.lax.select_n(which, *parts) for parts in zip(*cases, strict=True))
    same = [x.is_known & (x.value == cases[0].value) for x in cases]
    return _Part(value, is_known & by.is_known | functools.reduce(jnp.bitwise_and, same))


def _filled(part: _Part | None, like: Any) -> _Part:
    """A part, or one of zeros of which nothing is known."""
    if part is None:
        return _Part(jnp.zeros(like.shape, like.dtype), jnp.zeros(like.shape, bool))
    return part._replace(value=jnp.asarray(part.value, like.dtype))


def _identity(x: Any) -> Any:
    """What is equal for equal values, as far as that is seen."""
    if isinstance(x, Unknown):
        return x.first
    return id(x) if isinstance(x, jax.Array) or np.ndim(x) else repr(x)


def _is_open_bool(like: Any, x: Any) -> bool:
    return isinstance(x, Unknown) and like.dtype == bool and like.size == 1


def _known_of(x: Any) -> list[Any]:
    """The computed values in a value."""
    if isinstance(x, Unknown):
        return [] if x.value is None else [x.value, x.is_known]
    return [x]


def _part(x: Any) -> _Part | None:
    """What is known of a value."""
    if not isinstance(x, Unknown):
        return _Part(x, jnp.ones(jnp.shape(x), bool))
    return None if x.value is None else _Part(x.value, x.is_known)
