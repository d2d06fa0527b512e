"""Arrays of a simulator: copied to the dtypes of a space, combined, and checked."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from envrax._jax.types import is_traced
from envrax.interop.peer.spaces import within
from envrax.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from envrax.spaces.base import is_array, is_list, is_mapping, kind, require_container
from envrax.spaces.composite import map_leaves

Mask = np.ndarray[Any, np.dtype[np.bool_]]


class RewardsAndEnds(NamedTuple):
    """The reward of each slot, and whether and why its episode ended."""

    rewards: np.ndarray[Any, np.dtype[np.float32]]
    terminated: Mask
    truncated: Mask

    @property
    def done(self) -> Mask:
        """Whether the episode of each slot ended."""
        return self.terminated | self.truncated


def map_types(who: str, function: Callable[..., Any], types: Any, *trees: Any) -> Any:
    """
    `function(type, *leaves)` for every leaf; the containers, and None, are those of `types`.

    Raises
    ------
    ValueError
        If a tree has other keys than `types`, or another number of parts.
    """
    advice = "Correct the space that it declares."
    if is_mapping(types):
        for tree in trees:
            require_container(types, tree, who, "what the simulator gives", advice)
        items = types.items()
        return {k: map_types(who, function, v, *(x[k] for x in trees)) for k, v in items}
    if is_list(types):
        trees = tuple([*x] if is_array(x) and np.ndim(x) else x for x in trees)
        for tree in trees:
            require_container(types, tree, who, "what the simulator gives", advice)
        return tuple(map_types(who, function, *row) for row in zip(types, *trees, strict=True))
    return None if types is None else function(types, *trees)


def copy_as(types: Any, x: Any, who: str, read: Callable[[Any], Any] = np.asarray) -> Any:
    """
    Copies of a simulator's arrays, which it may overwrite, as arrays of `types`.

    Arrays that `read` gives as JAX arrays are copies already, and stay on their device.

    Raises
    ------
    ValueError
        If a shape differs, or a number does not survive the cast.
    """

    def copy(type_: jax.ShapeDtypeStruct, leaf: Any) -> Any:
        given = read(leaf)
        if given.shape != type_.shape or given.dtype == object:
            raise ValueError(
                f"{who}: expected the simulator to give an array of {type_.shape}, {type_.dtype}; "
                f"got {given.shape}, {given.dtype}. Correct the space that it declares."
            )
        return _cast(given, type_.dtype, who)

    return map_types(who, copy, types, x)


def _cast(given: Any, dtype: Any, who: str) -> Any:
    """A copy in another dtype. Floats that stay floats must stay finite, all others equal."""
    if isinstance(given, jax.Array):
        return given.astype(dtype)
    if given.dtype == dtype:
        return np.array(given, order="C")
    with np.errstate(all="ignore"):
        result = np.array(given, dtype, order="C")
        if kind(dtype) != "float":
            lost = result != given
        elif kind(given.dtype) == "float":
            lost = np.isfinite(given) & ~np.isfinite(result)
        else:  # compared as integers, since NumPy compares both as rounded floats
            lost = result.astype(given.dtype) != given
    if np.any(lost):
        raise ValueError(
            f"{who}: expected the simulator to give numbers that {result.dtype} holds; got "
            f"{given[lost].flat[0]}. Make them smaller; for observations and infos "
            "`jax_enable_x64` helps as well."
        )
    return result


def copy_rewards_and_ends(
    n: int,
    rewards: Any,
    terminated: Any,
    truncated: Any,
    who: str,
    read: Callable[[Any], Any] = np.asarray,
) -> RewardsAndEnds:
    """
    Copies of the rewards and of both ends of `n` slots.

    Raises
    ------
    ValueError
        If they are not one number or bool for each slot, or a reward is too large for float32.
    """

    def column(name: str, x: Any, dtype: Any) -> Any:
        given = read(x)
        if given.shape == (n,) and given.dtype == dtype:
            return given.copy()
        is_numeric = given.shape == (n,) and kind(given.dtype) != "other"
        if not is_numeric or (dtype is np.bool_ and np.any(given != given.astype(bool))):
            raise ValueError(
                f"{who}: expected the simulator to give {name} of shape ({n},), {np.dtype(dtype)}; "
                f"got {given.shape}, {given.dtype}. Let its `step` give one for each slot."
            )
        return _cast(given, dtype, f"{who}: {name}")

    return RewardsAndEnds(
        column("rewards", rewards, np.float32),
        column("terminated", terminated, np.bool_),
        column("truncated", truncated, np.bool_),
    )


def to_numpy(x: Any) -> Any:
    """Actions as NumPy arrays; casts of JAX arrays wrap integers around."""
    if is_mapping(x):
        return {name: to_numpy(item) for name, item in x.items()}
    if is_list(x):
        items = map(to_numpy, x)
        return [*items] if isinstance(x, list) else tuple(items)  # as messages name it
    if is_traced(x) or not isinstance(x, jax.Array):
        return x
    return x if kind(x.dtype) == "other" else np.asarray(x)  # keys are refused later


def as_declared(space: Space, actions: Any) -> Any:
    """Copies of actions in the dtypes of `space`, the space of one action, within its bounds."""

    def of_leaf(leaf: Space, x: Any) -> Any:
        return within(leaf, leaf.dtype, jax.tree.map(np.array, x))

    return map_leaves(of_leaf, space, actions)


def with_rows(into: Any, where: Any, rows: Any) -> Any:
    """A copy of `into` with `rows` at the places `where`: an index, indices or a mask."""

    def write(x: Any, new: Any) -> Any:
        if isinstance(x, jax.Array):
            return x.at[where].set(new)
        x = x.copy()
        x[where] = new
        return x

    return jax.tree.map(write, into, rows)


def take_rows(x: Any, where: Any) -> Any:
    """The rows `where` of every leaf."""
    return jax.tree.map(lambda leaf: leaf[where], x)


def require_legal(space: Space, actions: Any, who: str, path: str = "actions") -> None:
    """
    Raise an error for integers outside of `space`, the space of one action.

    A simulator in C++ uses them as indices without a check. Floats pass, since an environment clips
    them by its own rule.

    Raises
    ------
    ValueError
        If an integer is outside.
    """
    match space:
        case Dict():
            for name, child in space.spaces.items():
                require_legal(child, actions[name], who, f"{path}[{name!r}]")
            return
        case Tuple():
            for i, child in enumerate(space.spaces):
                require_legal(child, actions[i], who, f"{path}[{i}]")
            return
        case Discrete():
            low, high = 0, space.n - 1
        case MultiBinary():
            low, high = 0, 1
        case MultiDiscrete():
            low = 0
            high = np.asarray(space.nvec) - 1
        case Box() if kind(space.dtype) == "integer":
            low, high = space.low, space.high
        case _:
            return
    outside = (actions < low) | (actions > high)
    if outside.any():
        raise ValueError(
            f"{who}: expected {path} in {space}; got {actions[outside].flat[0]}, in slot "
            f"{np.argwhere(outside)[0][0]}. Draw them with `action_space.sample(rng)`."
        )
