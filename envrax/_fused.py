"""Several members of a fleet as one compiled program, equal ones traced once."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._compile import Compiled
from envrax._value import take_snapshot


@dataclass(frozen=True)
class Group(ABC):
    """
    Members that are equal by value, stepped together.

    Attributes
    ----------
    member : JaxEnv or BatchedEnv
        One for all: a private copy, which nobody edits, where it can be copied.
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
    size : int
        Number of members of the whole fleet, those that are not among the groups included.
    who : str
        The class of the fleet, for messages.
    """

    def __init__(self, groups: Sequence[Group], size: int, who: str) -> None:
        self.positions = tuple(sorted(p for group in groups for p in group.positions))
        self.reset_uncompiled = partial(_reset, groups, size)
        self.reset = Compiled(self.reset_uncompiled)
        self.step = Compiled(partial(_step, groups, self.positions, who))


def group_equal(members: Sequence[tuple[int, Any]], group: type[Group]) -> list[Group]:
    """
    Put equal members into groups.

    Parameters
    ----------
    members : sequence of tuple
        Positions and members. What cannot be compared by value, or not be copied, stays alone.
    group : type
        The class of the groups.
    """
    together: dict[Hashable, tuple[Any, list[int]]] = {}
    for position, member in members:
        snapshot = take_snapshot(member)
        value = ("alone", position) if snapshot is None else ("value", snapshot.value)
        one = member if snapshot is None else snapshot.copy
        together.setdefault(value, (one, []))[1].append(position)
    return [group(member, tuple(positions)) for member, positions in together.values()]


def _reset(groups: Sequence[Group], size: int, rng: jax.Array) -> tuple[dict[int, Any], ...]:
    """What the grouped members begin with, and the keys of the others, by position."""
    rngs = jax.random.split(rng, size)
    began: dict[int, Any] = {}
    for group in groups:
        if len(group.positions) == 1:
            (position,) = group.positions
            began[position] = group.member.reset(rngs[position])
        else:
            stacked = group.reset_stacked(rngs[np.asarray(group.positions)])
            began.update(zip(group.positions, _unstacked(stacked), strict=True))
    return began, {i: rngs[i] for i in range(size) if i not in began}


def _step(
    groups: Sequence[Group],
    positions: tuple[int, ...],
    who: str,
    states: Sequence[Any],
    actions: Sequence[Any],
) -> dict[int, Any]:
    state_at = dict(zip(positions, states, strict=True))
    action_at = dict(zip(positions, actions, strict=True))
    stepped: dict[int, Any] = {}
    for group in groups:
        if len(group.positions) == 1:
            (p,) = group.positions
            stepped[p] = group.member.step(state_at[p], action_at[p])
        else:
            state = _stacked({p: state_at[p] for p in group.positions}, who)
            action = _stacked({p: action_at[p] for p in group.positions}, who)
            stacked = group.step_stacked(state, action)
            stepped.update(zip(group.positions, _unstacked(stacked), strict=True))
    return stepped


def _stacked(trees: dict[int, Any], who: str) -> Any:
    (first, one), *others = trees.items()
    for position, other in others:
        if _form(other) != _form(one):
            raise TypeError(
                f"{who}.step: expected states of one form from the equal members {first} and "
                f"{position}; got {_form(one)[1]} and {_form(other)[1]}. Pass the states that "
                "reset or step returned."
            )
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees.values())


def _form(tree: Any) -> tuple[Any, list[str]]:
    leaves, structure = cast(Any, jax.tree.flatten(tree))
    return structure, [f"{x.dtype}{list(x.shape)}" for x in map(jnp.asarray, leaves)]


def _unstacked(tree: Any) -> list[Any]:
    leaves, structure = cast(Any, jax.tree.flatten(tree))
    size = cast(int, leaves[0].shape[0])
    return [jax.tree.unflatten(structure, [leaf[i] for leaf in leaves]) for i in range(size)]
