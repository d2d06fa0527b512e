"""Padding: observations and actions of agents with different spaces as one array."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property, partial
from math import prod
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._fleet.container import Container
from envrax._jax.programs import Compiled
from envrax.spaces import Discrete, Space
from envrax.spaces.base import canonical, kind


class Agents(NamedTuple):
    """The agents of one member: the spaces of one agent, and the leading axes over all of them."""

    observation_space: Space
    action_space: Space
    axes: tuple[int, ...]

    @property
    def rows(self) -> int:
        """Number of agents."""
        return prod(self.axes)


class Padded(ABC):
    """
    A fleet for one policy: arrays with one row for each agent, members in order.

    Rows are as wide as the widest member needs. Shorter ones are padded with zeros at the end.
    """

    _container: Container

    @abstractmethod
    def _agents(self) -> list[Agents]:
        """The agents of each member."""

    def pad_dims(self) -> tuple[int, int]:
        """
        Number of elements of the largest action and of the largest observation.

        An action of `Discrete(18)` is 1 element. The number of logits that a policy needs for it,
        18, is the width of `choice_mask()`.

        Returns
        -------
        action_size, observation_size : int
            Largest `size` of the members' action spaces, and of their observation spaces.
        """
        return (
            max(agents.action_space.size for agents in self._agents()),
            max(agents.observation_space.size for agents in self._agents()),
        )

    def choice_mask(self) -> np.ndarray:
        """
        The mask of the actions that each agent has. All action spaces must be `Discrete`.

        Returns
        -------
        np.ndarray
            bool of shape (rows, largest `n`), True below the `n` of the agent's space. It masks
            the logits of a shared policy.

        Raises
        ------
        TypeError
            If an action space is not a `Discrete`.
        """
        n: list[int] = []
        for agents in self._agents():
            space = agents.action_space
            if not isinstance(space, Discrete):
                raise TypeError(
                    f"{type(self).__name__}.choice_mask: expected every action space to be a "
                    f"Discrete; got {space}. Use `pad_dims` for actions of other spaces."
                )
            n += [space.n] * agents.rows
        return _true_up_to(n)

    def pad_observations(self, obs: Any) -> tuple[jax.Array, jax.Array]:
        """
        Flatten the observation of each agent and stack them into one array.

        The leaves of a nested observation follow each other in the order of `jax.tree.leaves`.

        Parameters
        ----------
        obs : list or dict
            The members' observations, as `reset` or `step` returned them.

        Returns
        -------
        padded : jax.Array
            Shape (rows, `pad_dims()[1]`). Its dtype is the one that those of the spaces promote
            to: uint8 stays uint8, uint8 and float32 give float32.
        mask : jax.Array
            bool of the same shape, True where `padded` holds an observation.

        Raises
        ------
        ValueError
            If an observation has another shape than its space.
        TypeError
            If no integer dtype holds the values of all the spaces, as for uint32 and int8.
        """
        who = f"{type(self).__name__}.pad_observations"
        (listed,) = self._container.read(who, obs=obs)
        for i, (agents, one) in enumerate(zip(self._agents(), listed, strict=True)):
            expected = _leaf_shapes(agents)
            if (got := [np.shape(leaf) for leaf in jax.tree.leaves(one)]) != expected:
                raise ValueError(
                    f"{who}: expected obs[{self._container.labels[i]!r}] with leaves of shape "
                    f"{expected}; got {got}. Pass what one reset or step returned; use `jax.vmap` "
                    "for a whole rollout."
                )
        return self._pad(listed)

    def unpad_actions(self, actions: jax.Array) -> Any:
        """
        Cut an array of flat actions, one row for each agent, into actions for `step`.

        Parameters
        ----------
        actions : jax.Array
            Shape (rows, `pad_dims()[0]`), or (rows,) if that is 1. The padding of a shorter action
            is ignored. Floats are rounded where the space holds integers. Bounds are not enforced.

        Returns
        -------
        list or dict
            The actions of each member, in the shape and dtype of its space.

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
        return self._container.build(self._unpad(actions))

    @cached_property
    def _pad(self) -> Compiled:
        agents = self._agents()
        dtype = _common_dtype(f"{type(self).__name__}.pad_observations", agents)
        return Compiled(partial(_pad, agents, dtype))

    @cached_property
    def _unpad(self) -> Compiled:
        return Compiled(partial(_unpad, self._agents()))


def _leaf_shapes(agents: Agents) -> list[tuple[int, ...]]:
    def leaf(dtype: Any, shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((*agents.axes, *shape), dtype)

    space = agents.observation_space
    return [x.shape for x in jax.tree.leaves(jax.tree.map(leaf, space.dtype, space.shape))]


def _common_dtype(who: str, members: Sequence[Agents]) -> np.dtype[Any]:
    """The dtype that the observations promote to, if it holds the values of all of them."""
    dtypes = [x for agents in members for x in jax.tree.leaves(agents.observation_space.dtype)]
    dtypes = list(dict.fromkeys(map(canonical, dtypes)))
    with jax.numpy_dtype_promotion("standard"):
        common = jnp.result_type(*dtypes)
    # A float rounds what it cannot hold, an integer would wrap around.
    if kind(common) == "integer" and not all(np.can_cast(dtype, common) for dtype in dtypes):
        raise TypeError(
            f"{who}: expected observations whose values {common} can hold, the dtype that they "
            f"promote to; got {' and '.join(map(str, dtypes))}. Cast one of them in a wrapper."
        )
    return common


def _pad(
    members: Sequence[Agents], dtype: np.dtype[Any], observations: Sequence[Any]
) -> tuple[jax.Array, jax.Array]:
    sizes = [agents.observation_space.size for agents in members]
    blocks: list[jax.Array] = []
    for agents, size, obs in zip(members, sizes, observations, strict=True):
        leaves = [jnp.asarray(leaf).astype(dtype) for leaf in jax.tree.leaves(obs)]
        flat = jnp.concatenate([leaf.reshape(agents.rows, -1) for leaf in leaves], axis=1)
        blocks.append(jnp.pad(flat, ((0, 0), (0, max(sizes) - size))))
    ends = np.repeat(sizes, [agents.rows for agents in members])
    return jnp.concatenate(blocks), jnp.asarray(_true_up_to(ends))


def _true_up_to(ends: Any) -> np.ndarray:
    """A row for each end, True before it and False from it on."""
    return cast(Any, np.arange(max(ends)) < np.asarray(ends)[:, None])


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
        return leaf.astype(canonical(dtype)).reshape(*agents.axes, *shape)

    return jax.tree.map(cut, agents.action_space.dtype, agents.action_space.shape)
