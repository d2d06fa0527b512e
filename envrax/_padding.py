"""One policy for agents with unequal spaces: their observations and actions in one array each."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property, partial
from math import prod
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._compile import Compiled
from envrax._container import Container
from envrax.spaces import Discrete, Space


class Agents(NamedTuple):
    """Agents with the same spaces: what one of them sees and does, and their leading axes."""

    observation_space: Space
    action_space: Space
    axes: tuple[int, ...]

    @property
    def rows(self) -> int:
        """How many they are."""
        return prod(self.axes)


class Padded(ABC):
    """
    The view of a fleet that a single policy has: one row for each agent, members in order.

    Rows are as wide as the widest member needs; what is shorter has zeros behind it.
    """

    _form: Container

    @abstractmethod
    def _agents(self) -> list[Agents]:
        """The agents of each member."""

    def pad_dims(self) -> tuple[int, int]:
        """
        How wide an action and an observation of any member can be, laid flat.

        Both count elements: an action of `Discrete(18)` is 1 element. How many logits a policy
        needs to choose it is the width of `choice_mask()`, 18.

        Returns
        -------
        action_size, observation_size : int
            The largest `size` of the members' action spaces, and of their observation spaces.
        """
        return (
            max(agents.action_space.size for agents in self._agents()),
            max(agents.observation_space.size for agents in self._agents()),
        )

    def choice_mask(self) -> np.ndarray:
        """
        Which choices each agent has, where all actions are `Discrete`.

        Returns
        -------
        np.ndarray
            bool of shape (rows, most choices of any member): True below the `n` of the agent's
            space. It masks the logits of a shared policy.

        Raises
        ------
        TypeError
            If an action space is no `Discrete`.
        """
        spaces = [agents.action_space for agents in self._agents()]
        for space in spaces:
            if not isinstance(space, Discrete):
                raise TypeError(
                    f"{type(self).__name__}.choice_mask: expected every action space to be a "
                    f"Discrete; got {space}. For others see `pad_dims`, which counts elements."
                )
        n = np.asarray([cast(Discrete, space).n for space in spaces])
        mask = cast(Any, np.arange(n.max()) < n[:, None])
        return np.repeat(mask, [agents.rows for agents in self._agents()], axis=0)

    def pad_observations(self, obs: Any) -> tuple[jax.Array, jax.Array]:
        """
        Stack the observations of all agents, each one flat, into one array.

        The leaves of a nested observation follow each other in the order of `jax.tree.leaves`.

        Parameters
        ----------
        obs : list or dict
            The members' observations, as `reset` or `step` returned them.

        Returns
        -------
        padded : jax.Array
            Shape (rows, `pad_dims()[1]`). Its dtype is what those of the spaces promote to: uint8
            stays uint8, and next to float32 becomes float32.
        mask : jax.Array
            bool of the same shape, True where `padded` holds an observation.

        Raises
        ------
        ValueError
            If an observation is of another shape than its space has.
        """
        who = f"{type(self).__name__}.pad_observations"
        (listed,) = self._form.read(who, obs=obs)
        for i, (agents, one) in enumerate(zip(self._agents(), listed, strict=True)):
            expected = _leaf_shapes(agents)
            if (got := [np.shape(leaf) for leaf in jax.tree.leaves(one)]) != expected:
                raise ValueError(
                    f"{who}: expected {self._form.path('obs', i)} with leaves of shape {expected}; "
                    f"got {got}. Pass what one reset or step returned; use `jax.vmap` for a "
                    "whole rollout."
                )
        return self._pad(listed)

    def unpad_actions(self, actions: jax.Array) -> Any:
        """
        Cut an array of flat actions, one row for each agent, into actions for `step`.

        Parameters
        ----------
        actions : jax.Array
            Shape (rows, `pad_dims()[0]`), or (rows,) if that is 1. Entries behind a shorter action
            are not looked at. Floats that stand for integers are rounded; bounds are not enforced.

        Returns
        -------
        list or dict
            The actions of each member, of its shape and dtype.

        Raises
        ------
        ValueError
            If `actions` is of another shape.
        """
        width, rows = self.pad_dims()[0], sum(agents.rows for agents in self._agents())
        legal = [(rows, width), *([(rows,)] if width == 1 else [])]
        if np.shape(actions) not in legal:
            raise ValueError(
                f"{type(self).__name__}.unpad_actions: expected actions of shape "
                f"{' or '.join(map(str, legal))}; got {np.shape(actions)}. Pass one row for each "
                "agent."
            )
        return self._form.build(self._unpad(actions))

    @cached_property
    def _pad(self) -> Compiled:
        return Compiled(partial(_pad, self._agents()))

    @cached_property
    def _unpad(self) -> Compiled:
        return Compiled(partial(_unpad, self._agents()))


def _leaf_shapes(agents: Agents) -> list[tuple[int, ...]]:
    def leaf(dtype: Any, shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((*agents.axes, *shape), dtype)

    space = agents.observation_space
    return [x.shape for x in jax.tree.leaves(jax.tree.map(leaf, space.dtype, space.shape))]


def _pad(members: Sequence[Agents], observations: Sequence[Any]) -> tuple[jax.Array, jax.Array]:
    sizes = [agents.observation_space.size for agents in members]
    dtypes = [x for agents in members for x in jax.tree.leaves(agents.observation_space.dtype)]
    with jax.numpy_dtype_promotion("standard"):
        dtype = jnp.result_type(*dtypes)
    blocks: list[jax.Array] = []
    for agents, size, obs in zip(members, sizes, observations, strict=True):
        leaves = [jnp.asarray(leaf).astype(dtype) for leaf in jax.tree.leaves(obs)]
        flat = jnp.concatenate([leaf.reshape(agents.rows, -1) for leaf in leaves], axis=1)
        blocks.append(jnp.pad(flat, ((0, 0), (0, max(sizes) - size))))
    ends = np.repeat(sizes, [agents.rows for agents in members])
    return jnp.concatenate(blocks), jnp.asarray(np.arange(max(sizes)) < ends[:, None])


def _unpad(members: Sequence[Agents], padded: jax.Array) -> list[Any]:
    padded = jnp.asarray(padded)
    ends = np.cumsum([agents.rows for agents in members])
    blocks = jnp.split(padded.reshape(padded.shape[0], -1), ends[:-1])
    return [_unflatten(*pair) for pair in zip(members, blocks, strict=True)]


def _unflatten(agents: Agents, flat: jax.Array) -> Any:
    start = 0

    def cut(dtype: Any, shape: tuple[int, ...]) -> jax.Array:
        nonlocal start
        leaf = flat[:, start : start + prod(shape)]
        start += prod(shape)
        if jnp.issubdtype(leaf.dtype, jnp.floating) and not jnp.issubdtype(dtype, jnp.floating):
            leaf = jnp.rint(leaf)
        return leaf.astype(jax.dtypes.canonicalize_dtype(dtype)).reshape(*agents.axes, *shape)

    return jax.tree.map(cut, agents.action_space.dtype, agents.action_space.shape)
