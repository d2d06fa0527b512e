"""`reset` and `step` of several members as one pair of pure functions."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, cast

import jax
import jax.numpy as jnp

from envrax._checks.tuples import require_tuple
from envrax._jax.keys import clone_keys, threefry
from envrax._jax.mesh import is_sharded


@dataclass(frozen=True)
class Fused:
    """
    The members of a fleet that are compiled together.

    Attributes
    ----------
    functions : dict
        `(reset, step)` of each member, by its position in the fleet.
    groups : list of list of int
        Positions of members that are the same environment, stepped as one batch by `jax.vmap`.
    names : list of str
        A name for every member of the fleet, for messages: "MultiEnv member 0".
    """

    functions: dict[int, tuple[Callable[..., Any], Callable[..., Any]]]
    groups: list[list[int]]
    names: list[str]

    def reset(self, rng: jax.Array) -> tuple[dict[int, Any], dict[int, jax.Array]]:
        """First observations and states of these members, and the keys of the others."""
        rngs = jax.random.split(threefry(rng), len(self.names))
        begun = self._call(0, {i: (rngs[i],) for i in self.functions})
        return begun, {i: rngs[i] for i in range(len(self.names)) if i not in begun}

    def step(
        self, donated: dict[int, Any], kept: dict[int, Any], actions: dict[int, Any]
    ) -> dict[int, Any]:
        """The results of each member, from the states that may be overwritten and the others."""
        states = donated | kept
        return self._call(1, {i: (states[i], actions[i]) for i in self.functions})

    def _call(self, which: int, arguments: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        returned: dict[int, Any] = {}
        for group in self.groups:
            given = [arguments[i] for i in group]
            first, method = group[0], ("reset", "step")[which]
            function = self.functions[first][which]
            if len(group) == 1 or is_sharded(given) or not _are_alike(given):
                for i, args in zip(group, given, strict=True):
                    returned[i] = call_member(self.names[i], method, function, *args)
            else:
                stacked = clone_keys(jax.tree.map(lambda *leaves: jnp.stack(leaves), *given))
                out = call_member(self.names[first], method, jax.vmap(function), *stacked)
                for k, i in enumerate(group):
                    returned[i] = clone_keys(jax.tree.map(itemgetter(k), clone_keys(out)))
        return returned


def call_member(name: str, method: str, function: Callable[..., Any], *args: Any) -> Any:
    """`reset` or `step` of a member; an error gets a note with the name of the member."""
    with noting(name):
        return require_tuple(name, method, function(*args))


@contextmanager
def noting(name: str) -> Generator[None]:
    """Add the name of a member to an error from within the block."""
    try:
        yield
    except Exception as error:
        error.add_note(f"This was in {name}.")
        raise


def _are_alike(trees: list[Any]) -> bool:
    """Whether they can be stacked: of one structure, shapes and dtypes."""

    def types(tree: Any) -> tuple[Any, list[Any]]:
        leaves, structure = cast(Any, jax.tree.flatten(tree))
        return structure, [jax.typeof(leaf) for leaf in leaves]

    first, *others = map(types, trees)
    return all(other == first for other in others)
