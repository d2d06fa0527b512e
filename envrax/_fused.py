"""Several members of a fleet as one compiled program, equal ones traced once."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._compile import Compiled
from envrax._keys import example_keys
from envrax._returned import require_tuple
from envrax._value import take_snapshot


@dataclass(frozen=True)
class Group(ABC):
    """
    Members that are equal by value, stepped together.

    Attributes
    ----------
    member : JaxEnv or BatchedEnv
        One for all: of several, a private copy, which nobody edits.
    positions : tuple of int
        Where they stand in the fleet.
    reset, step : Compiled
        The programs for one of them alone.
    """

    member: Any
    positions: tuple[int, ...]
    reset: Compiled = field(init=False, compare=False, repr=False)
    step: Compiled = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        vars(self).update(reset=Compiled(self.member.reset), step=Compiled(self.member.step))

    @abstractmethod
    def reset_stacked(self, rngs: jax.Array) -> Any:
        """`member.reset` for keys with a leading axis."""

    @abstractmethod
    def step_stacked(self, states: Any, actions: Any) -> Any:
        """`member.step` for states and actions with a leading axis."""


class Fused:
    """
    `reset` and `step` of all groups, each as one program.

    Parameters
    ----------
    groups : sequence of Group
        The members that are compiled together.
    names : sequence of str
        What each member is called, for messages: "MultiEnv member 0".
    """

    def __init__(self, groups: Sequence[Group], names: Sequence[str]) -> None:
        self.positions = tuple(sorted(p for group in groups for p in group.positions))
        self.reset_uncompiled = partial(_reset, groups, names)
        self.reset = Compiled(self.reset_uncompiled)
        self.step = Compiled(partial(_step, groups, self.positions, names))


def group_equal(members: Sequence[tuple[int, Any]], group: type[Group]) -> list[Group]:
    """
    Put equal members into groups.

    Parameters
    ----------
    members : sequence of tuple
        Positions and members. What has side effects, cannot be compared by value or cannot be
        copied stays alone.
    group : type
        The class of the groups.
    """
    together: dict[Hashable, tuple[Any, list[tuple[int, Any]]]] = {}
    for position, member in members:
        snapshot = take_snapshot(member)
        value = ("alone", position) if snapshot is None else ("value", snapshot.value)
        together.setdefault(value, (snapshot, []))[1].append((position, member))
    groups: list[Group] = []
    for snapshot, equal in together.values():
        if len(equal) > 1 and _is_pure(snapshot.copy):
            groups.append(group(snapshot.copy, tuple(position for position, _ in equal)))
        else:
            groups += [group(member, (position,)) for position, member in equal]
    return groups


def _is_pure(member: Any) -> bool:
    """Whether a member leaves nothing behind on the host, so that one may stand for several."""

    def both(rng: jax.Array) -> Any:
        _, state = member.reset(rng)
        return member.step(state, member.action_space.sample(rng))

    try:
        return not jax.make_jaxpr(both)(example_keys()[0]).effects
    except Exception:
        return True  # the first real call says what is wrong


@contextmanager
def named(name: str) -> Generator[None]:
    """Add the name of the member to whatever it raises."""
    try:
        yield
    except Exception as error:
        error.add_note(f"This was in {name}.")
        raise


def _reset(groups: Sequence[Group], names: Sequence[str], rng: jax.Array) -> Any:
    """What the grouped members begin with, and the keys of the others, by position."""
    rngs = jax.random.split(rng, len(names))
    began: dict[int, Any] = {}
    for group in groups:
        first = names[group.positions[0]]
        with named(first):
            if len(group.positions) == 1:
                (position,) = group.positions
                began[position] = require_tuple(first, "reset", group.member.reset(rngs[position]))
            else:
                stacked = group.reset_stacked(rngs[np.asarray(group.positions)])
                parts = _unstacked(require_tuple(first, "reset", stacked))
                began.update(zip(group.positions, parts, strict=True))
    return began, {i: rngs[i] for i in range(len(names)) if i not in began}


def _step(
    groups: Sequence[Group],
    positions: tuple[int, ...],
    names: Sequence[str],
    states: Sequence[Any],
    actions: Sequence[Any],
) -> dict[int, Any]:
    state_at = dict(zip(positions, states, strict=True))
    action_at = dict(zip(positions, actions, strict=True))
    stepped: dict[int, Any] = {}
    for group in groups:
        first = names[group.positions[0]]
        with named(first):
            if len(group.positions) == 1:
                (p,) = group.positions
                returned = group.member.step(state_at[p], action_at[p])
                stepped[p] = require_tuple(first, "step", returned)
            else:
                state = _stacked({names[p]: state_at[p] for p in group.positions})
                action = _stacked({names[p]: action_at[p] for p in group.positions})
                stacked = require_tuple(first, "step", group.step_stacked(state, action))
                stepped.update(zip(group.positions, _unstacked(stacked), strict=True))
    return stepped


def _stacked(trees: dict[str, Any]) -> Any:
    (first, one), *others = trees.items()
    for name, other in others:
        if _form(other) != _form(one):
            raise TypeError(
                f"{name}: expected a state of the same form as that of the equal {first}, "
                f"{_form(one)[1]}; got {_form(other)[1]}. Pass the states that reset or step "
                "returned."
            )
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees.values())


def _form(tree: Any) -> tuple[Any, list[str]]:
    leaves, structure = cast(Any, jax.tree.flatten(tree))
    return structure, [f"{x.dtype}{list(x.shape)}" for x in map(jnp.asarray, leaves)]


def _unstacked(tree: Any) -> list[Any]:
    leaves, structure = cast(Any, jax.tree.flatten(tree))
    size = cast(int, leaves[0].shape[0])
    return [jax.tree.unflatten(structure, [leaf[i] for leaf in leaves]) for i in range(size)]
