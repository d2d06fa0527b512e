"""Members of a fleet that JAX traces to the same, put together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

import jax
import jax.core

from envrax._fleet.identical import are_identical
from envrax._jax.keys import key_types
from envrax._jax.programs import Compiled, output_types
from envrax.spaces import Space


class TracesDifferError(Exception):
    """Members of one group are not traced to the same for these arguments."""


class Traceable:
    """
    What of a member is traced, and compared with others.

    Parameters
    ----------
    reset, step : callable
        Of the member; for a `VecEnv`, of the environment that it copies.
    action_space : Space
        What `step` takes.
    *options
        Settings that must also be equal; compared before tracing.
    reset_after : callable, optional
        Of an environment that a `VecEnv` copies, if its episodes depend on the one before.
    """

    def __init__(
        self,
        reset: Callable[..., Any],
        step: Callable[..., Any],
        action_space: Space,
        *options: Any,
        reset_after: Callable[..., Any] | None = None,
    ) -> None:
        self.functions = [Compiled(reset), Compiled(step)]
        self.functions += [Inlined(reset_after)] if reset_after else []
        self._action_space, self._options = action_space, options

    @cached_property
    def _traces(self) -> list[Any]:
        reset, step, *rest = self.functions
        begun = _trace(reset, key_types()[0])
        _, state = begun[1]
        stepped = _trace(step, state, output_types(self._action_space.sample))
        return [begun, stepped, *(_trace(reset_after, state) for reset_after in rest)]

    def is_traced_like(self, other: "Traceable") -> bool:
        if len(self.functions) != len(other.functions):
            return False
        try:
            same_options = bool(self._options == other._options)
            return same_options and all(map(_identical_traces, self._traces, other._traces))
        except Exception:  # the first real call says what is wrong with a member
            return False


class Inlined(Compiled):
    """
    A function that becomes part of the program that calls it, and is traced once all the same.

    Auto-reset sees which leaves of a state a `reset_after` hands through; within a program of its
    own it would seem to read and write all of them.
    """

    def __call__(self, *args: Any) -> Any:
        traced = self.trace(*args)
        program, structure = traced.jaxpr, cast(Any, jax.tree.structure(traced.out_info))
        returned = jax.core.eval_jaxpr(program.jaxpr, program.consts, *jax.tree.leaves(args))
        return jax.tree.unflatten(structure, returned)


@dataclass(frozen=True)
class Group:
    """
    Members stepped together.

    Attributes
    ----------
    positions : tuple of int
        Where they stand in the fleet.
    reset, step : callable
        Of one of them.
    reset_stacked, step_stacked : callable
        Of all of them: arguments and results with a leading axis.
    """

    positions: tuple[int, ...]
    reset: Callable[..., Any]
    step: Callable[..., Any]
    reset_stacked: Callable[..., Any]
    step_stacked: Callable[..., Any]


def in_turn(function: Callable[..., Any]) -> Callable[..., Any]:
    """Call it for one after the other: a batched environment may know nothing of `vmap`."""
    return lambda *args: jax.lax.map(lambda args: function(*args), args)


def group_identical(members: dict[int, Traceable]) -> list[list[int]]:
    """The positions of members, those that are traced to the same together."""
    groups: list[list[int]] = []
    for i, member in members.items():
        for group in groups:
            if members[group[0]].is_traced_like(member):
                group.append(i)
                break
        else:
            groups.append([i])
    return groups


def one_for_all(functions: Sequence[Compiled]) -> Callable[..., Any]:
    """
    The first function, after checking that all trace to the same program for its arguments.

    Parameters
    ----------
    functions : sequence of Compiled
        The functions. What is returned is to be called while JAX traces.

    Raises
    ------
    TracesDifferError
        The returned function raises it if the traces differ.
    """
    first, *others = functions

    def call(*args: Any) -> Any:
        if others:
            trace = _trace(first, *args)
            if not all(_identical_traces(trace, _trace(other, *args)) for other in others):
                raise TracesDifferError
        return first(*args)

    return call


def _trace(function: Compiled, *args: Any) -> tuple[Any, Any]:
    """The program, and the types of what it returns."""
    return cast(Any, jax.make_jaxpr(partial(function), return_shape=True)(*args))


def _identical_traces(first: tuple[Any, Any], second: tuple[Any, Any]) -> bool:
    ours, theirs = (cast(Any, jax.tree.structure(out)) for _, out in (first, second))
    # Static data is compared as written, too: 1 equals True, and 0.0 equals -0.0.
    same_out = bool(ours == theirs) and str(ours) == str(theirs)
    return same_out and are_identical(first[0], second[0])
