# pyright: basic
"""The step at which a limit ends an episode, found in the programs of an object."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.dead_code import without_dead_code
from envrax._jax.dependence import is_key
from envrax._jax.jaxprs import constants
from envrax._jax.known_part import Unknown, known_part
from envrax._jax.types import computed_at_once, is_traced
from envrax.interop.peer_types import NO_LIMIT

FAR = 2**20  # steps, in place of no limit


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
    itself, whatever the action. A field is a limit if only counters are compared with it: the rest
    of the program, which reads anything else, is the same with a longer limit.

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
    is_counter = _counters(here)

    def inputs(counters: Sequence[Any]) -> list[Any]:
        values = iter(counters)
        state = [next(values) if x else None for x in is_counter]
        after = len(here.step.jaxpr.invars) - 1 - len(state)
        return [None, *state, *[None] * after]

    def compared(counters: Sequence[Any]) -> tuple[Any, Any]:
        """Whether an end is cut, and whether a number differs that something else reads."""
        a, b = (known_part(x.step, inputs(counters), x.n_ends) for x in (here, longer))
        if a.rest != b.rest:
            return jnp.bool_(False), jnp.bool_(True)
        known = [x for x in zip(a.outputs, b.outputs, strict=True) if not _is_unknown(x[0])]
        read = [*zip(a.read, b.read, strict=True)]
        is_flag = [jnp.issubdtype(jnp.result_type(x), jnp.bool_) for x, _ in read]
        flags = [*known, *_chosen(read, is_flag)]
        return _differ(flags), _differ(_chosen(read, [not x for x in is_flag]))

    def count() -> tuple[Any, Any]:
        begun = known_part(here.reset(), [None]).outputs
        first = [jnp.asarray(x) for x in _chosen(begun, is_counter)]

        def goes_on(carry: Any) -> Any:
            n, counters = carry
            return (n < FAR) & ~compared(counters)[0]

        def advance(carry: Any) -> Any:
            n, counters = carry
            stepped = known_part(here.step, inputs(counters)).outputs[here.n_ends :]
            after = _chosen(stepped, is_counter)
            return n + 1, [jnp.asarray(y, x.dtype) for x, y in zip(counters, after, strict=True)]

        is_unclear = compared(first)[1]
        start = jnp.where(is_unclear, FAR, 1)
        n, _ = jax.lax.while_loop(goes_on, advance, (start, first))
        return jnp.where(n < FAR, n, NO_LIMIT), is_unclear

    with computed_at_once():
        n, is_unclear = jax.jit(count)()
    return n if is_traced(n) or not is_unclear else None


def _counters(programs: Programs) -> list[bool]:
    """Which parts of a state are counters."""
    variables = programs.step.jaxpr.outvars[programs.n_ends :]
    begun = _follow(programs.reset(), [False])
    found = [x and not is_key(v.aval) for x, v in zip(begun, variables, strict=True)]
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
        found[:] = [not _is_unknown(x) for x in part.outputs]

    jax.eval_shape(traced, *types)
    return found


def _is_unknown(x: Any) -> bool:
    return isinstance(x, Unknown)


def _chosen(values: Sequence[Any], which: Sequence[bool]) -> list[Any]:
    return [x for x, is_one in zip(values, which, strict=True) if is_one]


def _differ(pairs: Sequence[Any]) -> Any:
    """Whether the values of any pair differ. Those of other shapes do."""
    others = [(x, y) for x, y in pairs if x is not y]
    each = [jnp.shape(x) != jnp.shape(y) or jnp.any(x != y) for x, y in others]
    return jnp.stack([jnp.bool_(False), *map(jnp.bool_, each)]).any()
