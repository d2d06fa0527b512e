"""The batch contract: many independent agents stepped in one call."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding

from envrax._closing import Closing
from envrax._jax.cache import DEFAULT_CACHE_DIR, CacheDir, Compilation
from envrax.env import ActSpaceT, AnyEnv, Info, ObsSpaceT
from envrax.spaces import Space


class Part(NamedTuple):
    """
    A part of the slots of a batch.

    Attributes
    ----------
    batch : BatchedEnv
        These slots alone, uncompiled. Its steps are those of the whole batch.
    reset : callable
        `(rng, i) -> obs, state`: what `reset(rng)` of the whole batch gives in part i, which may be
        traced.
    """

    batch: "BatchedEnv[Any, Any]"
    reset: Callable[[jax.Array, Any], tuple[Any, Any]]


class BatchedEnv(Closing, ABC, Generic[ObsSpaceT, ActSpaceT]):
    """
    I step `n_slots` independent agents in one call.

    `VecEnv` is the one for copies of a `JaxEnv`. Write another for a world that holds several
    agents, or for environments that run on the host. The state is opaque to the caller.
    """

    @property
    @abstractmethod
    def n_slots(self) -> int:
        """The number of agents."""

    @property
    @abstractmethod
    def single_observation_space(self) -> ObsSpaceT:
        """The space of one agent's observation."""

    @property
    @abstractmethod
    def single_action_space(self) -> ActSpaceT:
        """The space of one agent's action."""

    @property
    def observation_space(self) -> Space:
        """The space of all agents' observations, stacked."""
        return self.single_observation_space.batch(self.n_slots)

    @property
    def action_space(self) -> Space:
        """The space of all agents' actions, stacked."""
        return self.single_action_space.batch(self.n_slots)

    @property
    def name(self) -> str:
        """The name for logs."""
        return type(self).__name__

    @property
    def traceable(self) -> bool:
        """Whether `reset` and `step` may be traced by JAX; False for threads and host code."""
        return True

    @property
    def compilation(self) -> Compilation | None:
        """How it is compiled, by itself or by a `MultiVecEnv`; None to be left as it is."""
        return Compilation() if self.traceable else None

    @property
    def sharding(self) -> NamedSharding | None:
        """How what `reset` and `step` return is laid out over devices; None for one device."""
        return None

    @property
    def unwrapped(self) -> AnyEnv | None:
        """The innermost environment of every slot; None where slots hold no `JaxEnv`."""
        return None

    @property
    def copies(self) -> "tuple[AnyEnv, partial[BatchedEnv[Any, Any]]] | None":
        """
        What the slots are copies of, for a `MultiVecEnv` that steps several such batches as one.

        The environment, and a function `(env, num_envs)` that builds the same batch around another
        one; None where slots are no copies of one `JaxEnv`.
        """
        return None

    def part(self, n_parts: int) -> "Part | None":
        """
        One of `n_parts` equal parts of the slots, for a batch that is spread over devices.

        Parameters
        ----------
        n_parts : int
            Number of parts.

        Returns
        -------
        Part or None
            None where the slots depend on each other, or the batch cannot be divided so.
        """
        return None

    def with_final_obs(self) -> "BatchedEnv[Any, Any]":
        """
        This batch with `infos["final_obs"]`, the observation that the step itself made.

        Trainers that bootstrap on truncation need it. Returns itself unless overridden.
        """
        return self

    @abstractmethod
    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        """
        Begin an episode in every slot.

        Parameters
        ----------
        rng : jax.Array
            One PRNG key, typed or legacy.

        Returns
        -------
        obs : pytree of jax.Array
            First observations, an element of `observation_space`: leading axis `n_slots`.
        state : pytree
            State of all slots, for `step`.
        """

    @abstractmethod
    def step(self, state: Any, actions: Any) -> tuple[Any, Any, jax.Array, jax.Array, Info]:
        """
        Take one step in every slot. A slot whose episode ends goes on with the next episode.

        Parameters
        ----------
        state : pytree
            State from `reset` or from the last `step`.
        actions : pytree of jax.Array
            An element of `action_space`.

        Returns
        -------
        obs, new_state, rewards, dones, infos
            As from `JaxEnv.step`, each with leading axis `n_slots`.
        """

    def action_mask(self, state: Any) -> Any:
        """
        Which actions are legal in every slot; see `JaxEnv.action_mask`.

        Parameters
        ----------
        state : pytree
            State of all slots, from `reset` or `step`; in a slot whose episode ended, that of the
            next one.

        Returns
        -------
        pytree of jax.Array, or None
            As from `JaxEnv.action_mask`, with leading axis `n_slots`. None if all are legal.
        """
        return None

    def slot_state(self, state: Any, slot_idx: int | jax.Array = 0) -> Any:
        """
        The state of one slot, as a single environment has it.

        Parameters
        ----------
        state : pytree
            State of all slots.
        slot_idx : int or jax.Array, default 0
            List rules: negative counts from the end. It may be traced.

        Raises
        ------
        IndexError
            If a concrete index is out of range.
        NotImplementedError
            If a slot has no state of its own.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.slot_state: expected slots with a state of their own; got a "
            "batched environment that keeps none. Override it if it can give one."
        )

    def render_slot(self, state: Any, slot_idx: int = 0) -> np.ndarray:
        """
        Draw one slot.

        Parameters
        ----------
        state : pytree
            State of all slots.
        slot_idx : int, default 0
            As for `slot_state`, concrete.

        Returns
        -------
        np.ndarray
            uint8 RGB image of shape (H, W, 3).
        """
        raise NotImplementedError(
            f"{type(self).__name__}.render_slot: expected a batched environment that draws itself; "
            "got one without `render_slot`. Override it."
        )

    def compile(self, cache_dir: CacheDir = DEFAULT_CACHE_DIR) -> None:
        """
        Compile ahead of the first `reset` and `step`, which then compile nothing.

        Parameters
        ----------
        cache_dir : path-like or None
            Directory or URL of the persistent compile cache; None for no cache. The default gives
            way to a cache that the user set up in JAX.
        """


def require_final_obs(who: str, infos: Info) -> Any:
    """`infos["final_obs"]` of a batch that `with_final_obs` returned, or an error."""
    if "final_obs" not in infos:
        raise TypeError(
            f"{who}: expected infos with `final_obs`; got {sorted(infos)}. Build the batch with "
            "`final_obs=True`, or override its `with_final_obs`."
        )
    return infos["final_obs"]
