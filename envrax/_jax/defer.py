"""Computing the first result of a function later. JAX has no public function for it."""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple, cast

import jax
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun

from envrax._jax.jaxprs import jitted_program

Step = Callable[..., tuple[Any, ...]]


class Deferred(NamedTuple):
    """
    A function that returns `(first, *others)`, in two parts.

    Attributes
    ----------
    others : callable
        Takes the arguments of the function. Returns `others`, a tuple, and what `first` is computed
        from, a pytree.
    first : callable
        Computes `first` from that pytree.
    """

    others: Callable[..., tuple[tuple[Any, ...], Any]]
    first: Callable[[Any], Any]


def defer_first(function: Step, state: Any, *args: Any) -> Deferred:
    """
    Split a step: a function of a state, and of more, that returns `(first, state, *others)`.

    Each operation of the function is in one of the two parts. What `others` needs, and what has a
    side effect, is in the part that comes first. The parts are split where this makes what is kept
    between them smaller than `first`; otherwise `first` itself is kept. It is also kept if the new
    state has other types than the old one, since the parts are of one type, and under
    `jax.disable_jit`.

    Parameters
    ----------
    function : callable
        The function. It may close over tracers.
    state, *args : pytree
        Its arguments, or others of the same types.
    """
    if cast(Any, jax.config).jax_disable_jit:
        return keep_first(function)
    program, types = cast(Any, jax.make_jaxpr(function, return_shape=True)(state, *args))
    n_first = len(jax.tree.leaves(types[0]))
    if not _keeps_types(program.jaxpr, n_first, state, types[1]):
        return keep_first(function)
    parts = _split(program, n_first)
    while parts.calls_of_both:
        program = _written_out(program, parts.calls_of_both)
        parts = _split(program, n_first)
    first_vars = program.jaxpr.outvars[:n_first]
    other_vars = program.jaxpr.outvars[n_first:]
    if _n_bytes(parts.between) >= _n_bytes(first_vars):
        return keep_first(function)

    def others(*args: Any) -> tuple[tuple[Any, ...], list[jax.Array]]:
        wanted = [*other_vars, *parts.between]
        values = _run(program, parts.now, program.jaxpr.invars, wanted, jax.tree.leaves(args))
        found = jax.tree.unflatten(jax.tree.structure(types[1:]), values[: len(other_vars)])
        return found, values[len(other_vars) :]

    def first(between: list[jax.Array]) -> Any:
        values = _run(program, parts.later, parts.between, first_vars, between)
        return jax.tree.unflatten(jax.tree.structure(types[0]), values)

    return Deferred(others, first)


def keep_first(function: Step) -> Deferred:
    """The same form for a function that is not split: what is kept is `first` itself."""

    def others(*args: Any) -> tuple[tuple[Any, ...], Any]:
        first, *others = function(*args)
        return tuple(others), first

    return Deferred(others, lambda first: first)


class _Parts(NamedTuple):
    """
    The equations of a program in two parts.

    Attributes
    ----------
    now, later : list
        Equations that other results need, or that have an effect; those only for the first result.
    between : list
        Variables that the second part takes from the first.
    calls_of_both : list
        Calls of `jit` in the first part of which an output is only for the second.
    """

    now: list[Any]
    later: list[Any]
    between: list[Any]
    calls_of_both: list[Any]


def _keeps_types(jaxpr: Any, n_first: int, state: Any, new_state: Any) -> bool:
    """Whether the new state of a step has the structure and the types of the old one."""
    if jax.tree.structure(state) != jax.tree.structure(new_state):
        return False
    n = len(jax.tree.leaves(state))
    old = [x.aval for x in jaxpr.invars[:n]]
    new = [x.aval for x in jaxpr.outvars[n_first:][:n]]
    return old == new


def _split(program: Any, n_first: int) -> _Parts:
    jaxpr = program.jaxpr
    first_vars, other_vars = jaxpr.outvars[:n_first], jaxpr.outvars[n_first:]
    wanted_now = set(map(id, other_vars))
    now = _needed(jaxpr.eqns, wanted_now, lambda eqn: bool(eqn.effects))
    rest = set(map(id, now))
    others = [eqn for eqn in jaxpr.eqns if id(eqn) not in rest]
    later = _needed(others, set(map(id, first_vars)), lambda eqn: False)
    between = _taken(later, first_vars, jaxpr.constvars)
    only_later = {id(x) for x in between} - wanted_now
    calls = [eqn for eqn in now if jitted_program(eqn) and only_later & set(map(id, eqn.outvars))]
    return _Parts(now, later, between, calls)


def _needed(equations: Sequence[Any], wanted: set[int], always: Callable[[Any], bool]) -> list[Any]:
    """The equations behind variables, by their ids; those of the inputs are added to `wanted`."""
    needed: list[Any] = []
    for eqn in reversed(equations):
        if always(eqn) or wanted & set(map(id, eqn.outvars)):
            needed.append(eqn)
            wanted |= set(map(id, eqn.invars))
    return needed[::-1]


def _taken(equations: Sequence[Any], outputs: Sequence[Any], constants: Sequence[Any]) -> list[Any]:
    """The variables that equations, and outputs beside theirs, take from elsewhere."""
    made = {id(x) for eqn in equations for x in eqn.outvars} | set(map(id, constants))
    used = [*(x for eqn in equations for x in eqn.invars), *outputs]
    found = {id(x): x for x in used if not isinstance(x, Literal) and id(x) not in made}
    return list(found.values())


def _n_bytes(variables: Iterable[Any]) -> int:
    return sum([x.aval.size * x.aval.dtype.itemsize for x in variables])


def _run(
    program: Any,
    equations: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    values: Sequence[Any],
) -> list[jax.Array]:
    """The values of variables, by some equations of a program."""
    jaxpr = program.jaxpr.replace(
        eqns=list(equations),
        invars=list(inputs),
        outvars=list(outputs),
        effects=frozenset[Any]().union(*[eqn.effects for eqn in equations]),
        debug_info=program.jaxpr.debug_info.with_unknown_names(),
    )
    return cast(Any, jaxpr_as_fun(ClosedJaxpr(jaxpr, program.consts))(*values))


def _written_out(program: Any, calls: Sequence[Any]) -> Any:
    """The same program, with the equations of some calls of `jit` in place of the calls."""
    jaxpr = program.jaxpr
    ids = set(map(id, calls))

    def run(*args: Any) -> list[Any]:
        known = zip([*jaxpr.invars, *jaxpr.constvars], [*args, *program.consts], strict=True)
        values = {id(x): value for x, value in known}

        def read(variables: Sequence[Any]) -> list[Any]:
            return [x.val if isinstance(x, Literal) else values[id(x)] for x in variables]

        for is_call, group in groupby(jaxpr.eqns, lambda eqn: id(eqn) in ids):
            equations = list(group)
            if is_call:
                for eqn in equations:
                    called = cast(Any, jaxpr_as_fun(jitted_program(eqn)))
                    results = called(*read(eqn.invars))
                    values |= zip(map(id, eqn.outvars), results, strict=True)
                continue
            inputs = _taken(equations, (), jaxpr.constvars)
            outputs = [x for eqn in equations for x in eqn.outvars]
            results = _run(program, equations, inputs, outputs, read(inputs))
            values |= zip(map(id, outputs), results, strict=True)
        return read(jaxpr.outvars)

    return jax.make_jaxpr(run)(*[x.aval for x in jaxpr.invars])
