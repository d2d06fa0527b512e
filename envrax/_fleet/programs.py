"""The compiled calls of a fleet: all members together, and one alone."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, cast

import jax
import jax.numpy as jnp

from envrax._checks import require_tuple
from envrax._fleet.groups import Group
from envrax._jax.mesh import is_sharded
from envrax._jax.programs import CompiledEnv, next_step, output_types
from envrax.spaces import Space


class Programs:
    """
    `reset` and `step` of all groups in one program each, and of one member of each group.

    Parameters
    ----------
    groups : sequence of Group
        The members that are compiled.
    names : sequence of str
        What each member of the fleet is called, for messages: "MultiEnv member 0".
    action_spaces : dict
        Position to action space, of the members that are compiled.
    donating : set of int
        Positions of the members whose step takes over the buffers of its state.

    Attributes
    ----------
    at : dict of CompiledEnv
        Of the member at a position; members of a group share one.
    alone : list of CompiledEnv
        Of each group one member.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        names: Sequence[str],
        action_spaces: dict[int, Space],
        donating: set[int],
    ) -> None:
        self._action_spaces, self._donating = action_spaces, donating
        self._reset = partial(_reset_groups, groups, names)
        step = partial(_step_groups, groups, names)
        self._fused = CompiledEnv(self._reset, step, self._next_step, donate=True)
        self.at: dict[int, CompiledEnv] = {}
        for group in groups:
            first = group.positions[0]
            arguments = partial(next_step, action_spaces[first].sample)
            alone = CompiledEnv(group.reset, group.step, arguments, first in donating)
            self.at |= dict.fromkeys(group.positions, alone)
        self.alone = [self.at[group.positions[0]] for group in groups]

    def reset(self, rng: jax.Array) -> tuple[dict[int, Any], dict[int, jax.Array]]:
        """What each of the members begins with, and the keys of the others, by position."""
        return self._fused.reset(rng) if self.at else self._reset(rng)

    def step(self, states: Sequence[Any], actions: Sequence[Any]) -> dict[int, Any]:
        """What the members return, from the states and actions of the whole fleet."""
        return self._fused.step(*self._arguments(states, actions)) if self.at else {}

    def compile(self, cache_dir: Any, compiled: Any) -> None:
        """Compile all of them, without running; `compiled` is called after each program."""
        for alone in self.alone:
            alone.compile(cache_dir, compiled)
        self._fused.compile(cache_dir, compiled)

    def _arguments(self, states: Any, actions: Any) -> tuple[Any, Any, Any]:
        """The states that may be written over, those that may not, and the actions."""
        donated = {i: states[i] for i in self.at if i in self._donating}
        kept = {i: states[i] for i in self.at if i not in self._donating}
        return donated, kept, {i: actions[i] for i in self.at}

    def _next_step(self, returned: Any) -> tuple[Any, Any, Any]:
        states = {i: state for i, (_, state) in returned[0].items()}
        actions = {i: output_types(space.sample) for i, space in self._action_spaces.items()}
        return self._arguments(states, actions)


def call_member(name: str, method: str, function: Callable[..., Any], *args: Any) -> Any:
    """What `reset` or `step` of a member returns; whatever it raises gets the member's name."""
    try:
        return require_tuple(name, method, function(*args))
    except Exception as error:
        error.add_note(f"This was in {name}.")
        raise


def _reset_groups(groups: Sequence[Group], names: Sequence[str], rng: jax.Array) -> Any:
    rngs = jax.random.split(rng, len(names))
    returned: dict[int, Any] = {}
    for group in groups:
        keys = {i: (rngs[i],) for i in group.positions}
        returned |= _call_group(group, names, "reset", keys)
    return returned, {i: rngs[i] for i in range(len(names)) if i not in returned}


def _step_groups(
    groups: Sequence[Group], names: Sequence[str], donated: Any, kept: Any, actions: Any
) -> dict[int, Any]:
    states = donated | kept
    returned: dict[int, Any] = {}
    for group in groups:
        both = {i: (states[i], actions[i]) for i in group.positions}
        returned |= _call_group(group, names, "step", both)
    return returned


def _call_group(
    group: Group, names: Sequence[str], method: str, arguments: dict[int, tuple[Any, ...]]
) -> dict[int, Any]:
    """What the members return, by position."""
    # Arguments of unequal types, and those spread over several devices, are not put together.
    if len(arguments) == 1 or is_sharded(arguments) or not _are_alike([*arguments.values()]):
        one = getattr(group, method)
        return {i: call_member(names[i], method, one, *args) for i, args in arguments.items()}
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *arguments.values())
    stacked = getattr(group, f"{method}_stacked")
    returned = call_member(names[group.positions[0]], method, stacked, *together)
    return {i: jax.tree.map(itemgetter(k), returned) for k, i in enumerate(group.positions)}


def _are_alike(trees: list[Any]) -> bool:
    """Whether they can be stacked: of one structure, shapes and dtypes."""

    def types(tree: Any) -> tuple[Any, list[Any]]:
        leaves, structure = cast(Any, jax.tree.flatten(tree))
        return structure, [jax.typeof(leaf) for leaf in leaves]

    first, *others = map(types, trees)
    return all(other == first for other in others)
