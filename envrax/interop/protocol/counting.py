# pyright: basic
"""The step at which a limit ends an episode, found in the programs of an object."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.at_once import computed_at_once
from envrax._jax.dead_code import without_dead_code
from envrax._jax.jaxprs import constants
from envrax._jax.types import is_traced
from envrax.interop.peer.types import NO_LIMIT
from envrax.interop.protocol.dependence import may_be_key
from envrax.interop.protocol.known_part import Unknown, known_part

FAR = 2**20 + 1  # steps, in place of no limit; it adds 1 to integers of 8 and 16 bits
_CHOICES = 3  # bools of which both values are looked at
_LOOKED_AT = 2**15  # steps that are looked at where no field is known to be the limit


class Programs(NamedTuple):
    """
    The programs of an object.

    Attributes
    ----------
    reset : callable
        Gives the program of a key to the leaves of a state.
    step : ClosedJaxpr
        A key, the leaves of a state and an action to the ends of an episode, and the leaves of a
        state.
    n_ends : int
        The number of ends.
    """

    reset: Any
    step: Any
    n_ends: int


def ends_differ(a: Programs, b: Programs) -> bool:
    """Whether the programs of the ends compute something else."""

    def form(programs: Programs) -> Any:
        used, _ = without_dead_code(programs.step, programs.n_ends)
        values = [id(x) if is_traced(x) else np.asarray(x).tobytes() for x in constants(used)]
        return re.sub(r"0x[0-9a-f]+", "", str(used.jaxpr)), values

    return form(a) != form(b)


def steps_to_end(here: Programs, longer: Programs) -> Any:
    """
    The step at which a limit ends an episode.

    A counter is a part of the state that every reset begins alike, and that a step changes by
    itself, whatever the action. A field is a limit if it changes nothing until a step at which an
    end follows from the counters alone, and which does not end with a longer limit. The rest of the
    program, which reads anything else, is the same with both. Of `out` and `late & ~out` one is an
    end where `late` is.

    Parameters
    ----------
    here, longer : Programs
        Those of an object, and of one with a far longer limit.

    Returns
    -------
    int or None
        `NO_LIMIT` if it is beyond `FAR`; None if something else is compared with the field. It may
        be traced, if the field is.
    """
    count = _Counters(here)

    def compared(counters: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Whether anything known differs; if only that does; if here alone an end is sure."""
        a, b = (known_part(x.step, count.inputs(counters), x.n_ends) for x in (here, longer))
        if a.rest != b.rest:
            return jnp.bool_(True), jnp.bool_(False), jnp.bool_(False)
        pairs = [*zip(a.read, b.read, strict=True)]
        ended = jnp.bool_(False)
        for x, y in zip(map(_known, a.outputs), map(_known, b.outputs), strict=True):
            pairs += zip(x, y, strict=True)
            ended |= _is_sure(*x) & ~_is_sure(*y)
        others = [(x, y) for x, y in pairs if x is not y]
        each = [jnp.shape(x) != jnp.shape(y) or jnp.any(x != y) for x, y in others]
        differs = jnp.stack([jnp.bool_(False), *map(jnp.bool_, each)]).any()
        return differs, jnp.bool_(True), ended

    def follows(counters: Sequence[Any]) -> Any:
        a, b = (_end_follows(x, count.inputs(counters)) for x in (here, longer))
        return a & ~b

    n, counters, (_, is_alike, is_sure) = count.first_step(lambda x: compared(x)[0], compared)
    if is_traced(n):
        return n
    with computed_at_once():
        is_clear = n == NO_LIMIT or is_sure or (is_alike and jax.jit(follows)(counters))
    return n if is_clear else None


def step_of_certain_end(programs: Programs) -> int:
    """
    The first step at which the counters alone make an end.

    `NO_LIMIT` if they make none in `_LOOKED_AT` steps, or if it depends on a traced parameter.
    """
    count = _Counters(programs)

    def ended(counters: Sequence[Any]) -> Any:
        return _end_follows(programs, count.inputs(counters))

    may_follow: list[bool] = []

    def first() -> None:
        ends = count.ends(count.begun())
        may_follow[:] = [not isinstance(x, Unknown) or x.value is not None for x in ends]

    jax.eval_shape(first)
    n = count.first_step(ended, most=_LOOKED_AT)[0] if any(may_follow) else NO_LIMIT
    return NO_LIMIT if is_traced(n) else int(n)


def is_counted(programs: Programs) -> bool:
    """Whether the counters alone say whether the first step makes an end."""
    count = _Counters(programs)

    def first() -> Any:
        ends = _resolved(programs, count.inputs(count.begun()))[1:]
        return jnp.stack([jnp.all(is_known) for _, is_known in ends]).all()

    with computed_at_once():
        found = jax.jit(first)()
    return is_traced(found) or bool(found)


class _Counters:
    """The parts of a state that are counters."""

    def __init__(self, programs: Programs) -> None:
        self.programs = programs
        self.which = _counters(programs)

    def inputs(self, counters: Sequence[Any]) -> list[Any]:
        """The inputs of a step: the values of counters, and None for all others."""
        values = iter(counters)
        state = [next(values) if x else None for x in self.which]
        after = len(self.programs.step.jaxpr.invars) - 1 - len(state)
        return [None, *state, *[None] * after]

    def begun(self) -> list[Any]:
        """Their values in the state of a reset."""
        state = known_part(self.programs.reset(), [None]).outputs
        return [jnp.asarray(x) for x in _chosen(state, self.which)]

    def ends(self, counters: Sequence[Any]) -> list[Any]:
        """The ends of a step; each an `Unknown` if something else decides it."""
        n_ends = self.programs.n_ends
        return known_part(self.programs.step, self.inputs(counters), n_ends).outputs

    def first_step(
        self, is_it: Any, then: Any = lambda _: None, most: int = FAR
    ) -> tuple[Any, list[Any], Any]:
        """
        The first step for which `is_it(counters)` holds, `NO_LIMIT` if it is beyond `most`.

        Then the counters before it, and `then(counters)`.
        """

        def count() -> tuple[Any, list[Any], Any]:
            def goes_on(carry: Any) -> Any:
                n, counters = carry
                return (n < most) & ~is_it(counters)

            def advance(carry: Any) -> Any:
                n, counters = carry
                step, n_ends = self.programs.step, self.programs.n_ends
                after = known_part(step, self.inputs(counters)).outputs[n_ends:]
                pairs = zip(counters, _chosen(after, self.which), strict=True)
                return n + 1, [jnp.asarray(y, x.dtype) for x, y in pairs]

            n, counters = jax.lax.while_loop(goes_on, advance, (jnp.int32(1), self.begun()))
            return jnp.where(n < most, n, NO_LIMIT), counters, then(counters)

        with computed_at_once():
            return jax.jit(count)()


def _known(x: Any) -> tuple[Any, Any]:
    """The value of an end, and whether it is known."""
    if not isinstance(x, Unknown):
        return x, jnp.bool_(True)
    return (jnp.bool_(False), jnp.bool_(False)) if x.value is None else (x.value, x.is_known)


def _end_follows(programs: Programs, inputs: Sequence[Any]) -> Any:
    """Whether known inputs make an end, one or another."""
    return _resolved(programs, inputs)[0][1]


def _resolved(
    programs: Programs,
    inputs: Sequence[Any],
    depth: int = _CHOICES,
    assumed: Mapping[int, bool] = MappingProxyType({}),
) -> list[tuple[Any, Any]]:
    """
    Whether some end is sure, then each end; as values, and whether they are known.

    Known is also what is the same whatever the last few bools are that the inputs leave open.
    """
    part = known_part(programs.step, inputs, programs.n_ends, assumed)
    ends = [*map(_known, part.outputs)]
    is_sure = jnp.stack([_is_sure(*x) for x in ends]).any()
    found = [(is_sure, is_sure), *ends]
    later = [x for x in part.choices if x > max(assumed, default=-1)][-depth:]
    if not depth or not later:
        return found
    cases = [
        _resolved(programs, inputs, depth - 1, {**assumed, min(later): x}) for x in (False, True)
    ]
    return [
        (jnp.where(is_known, x, a), is_known | (knows_a & knows_b & (a == b)))
        for (x, is_known), (a, knows_a), (b, knows_b) in zip(found, *cases, strict=True)
    ]


def _is_sure(end: Any, is_known: Any) -> Any:
    return jnp.any(is_known & jnp.asarray(end, bool))


def _counters(programs: Programs) -> list[bool]:
    """Which parts of a state are counters."""
    variables = programs.step.jaxpr.outvars[programs.n_ends :]
    begun = _follow(programs.reset(), [False])
    found = [x and not may_be_key(v.aval) for x, v in zip(begun, variables, strict=True)]
    n_after = len(programs.step.jaxpr.invars) - 1 - len(found)
    while True:
        after = _follow(programs.step, [False, *found, *[False] * n_after])[programs.n_ends :]
        still = [a and b for a, b in zip(found, after, strict=True)]
        if still == found:
            return found
        found = still


def _follow(program: Any, known: Sequence[bool]) -> list[bool]:
    """Which results of a program follow from the inputs that are known."""
    types = [v.aval for v in _chosen(program.jaxpr.invars, known)]
    found: list[bool] = []

    def traced(*values: Any) -> None:
        given = iter(values)
        part = known_part(program, [next(given) if x else None for x in known])
        found[:] = [not isinstance(x, Unknown) for x in part.outputs]

    jax.eval_shape(traced, *types)
    return found


def _chosen(values: Sequence[Any], which: Sequence[bool]) -> list[Any]:
    return [x for x, is_one in zip(values, which, strict=True) if is_one]
