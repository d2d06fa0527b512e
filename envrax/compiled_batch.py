"""`CompiledBatch`: the base class of batches that compile their functions."""

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from envrax._checks.marks import hands_on
from envrax._checks.masks import require_mask
from envrax._jax.cache import DEFAULT_CACHE_DIR, CacheDir, Compilation
from envrax._jax.compiled import Compiled, compile_pair
from envrax._jax.copies import StateCopies, copy_numpy
from envrax._jax.keys import refuses_seed, require_key
from envrax._jax.mesh import reshard, to_sharding, where_slots
from envrax._jax.types import with_shardings
from envrax.batched_env import AnyBatch, BatchedEnv, StepOptions, is_straight
from envrax.env import ActSpaceT, AnyEnv, Info, ObsSpaceT
from envrax.spaces.composite import map_leaves
from envrax.spaces.conform import conform, conformed_types

_PROGRAMS = "_reset_program", "_step_program", "_begin_program", "_mask_program", "_active_program"


class CompiledBatch(BatchedEnv[ObsSpaceT, ActSpaceT]):
    """
    A batch whose functions are compiled on first use, or by `compile`.

    A subclass defines the pure functions that begin with `_`, and calls `_use`. Arguments are
    checked here, once: the key, the actions, and the placement of arrays on a mesh.

    Attributes
    ----------
    compilation : Compilation or None
        Options of the compilation; None if the batch is not compiled.
    layout : jax.sharding.NamedSharding or None
        The sharding of the slots over a mesh; None if the batch is not sharded.
    compiled_with : Compilation or None
        The options of the last call of `compile`; None before.
    """

    compilation: Compilation | None
    layout: NamedSharding | None
    compiled_with: Compilation | None = None
    _result_layout: NamedSharding | None = None  # of all results; None if the program decides

    def _use(self, compilation: Compilation | None, layout: NamedSharding | None = None) -> None:
        """Set how the batch is compiled, and the sharding of its slots."""
        self.compilation = compilation
        self.layout = layout
        self._copies = StateCopies()
        for name in _PROGRAMS:
            vars(self).pop(name, None)  # those of the batch that this one is a copy of

    @cached_property
    def _reset_program(self) -> Compiled:
        return self._program(self._reset_slots, layout=self._result_layout)

    @cached_property
    def _step_program(self) -> Compiled:
        donate = (0,) if self.compilation is not None and self.compilation.donate else ()
        return self._program(self._step_slots, donate, self._result_layout, static=(2,))

    @cached_property
    def _begin_program(self) -> Compiled:
        return self._program(self._reset_slots_where)

    @cached_property
    def _mask_program(self) -> Compiled:
        return self._program(self._mask_slots)

    @cached_property
    def _active_program(self) -> Compiled:
        return self._program(self._active_slots)

    def _program(self, function: Callable[..., Any], *how: Any, **named: Any) -> Compiled:
        """A pure function of the batch, compiled if the batch is."""
        return Compiled(function, *how, **named, jit=self.compilation is not None)

    @abstractmethod
    def _reset_slots(self, rng: jax.Array) -> Any:
        """`reset` as a pure function."""

    @abstractmethod
    def _step_slots(self, state: Any, actions: Any, options: StepOptions) -> Any: ...

    @abstractmethod
    def _begin_slots(
        self, mask: Any, state: Any, rngs: Any, starts: Any = None, /
    ) -> tuple[Any, Any, jax.Array]:
        """
        Begin an episode in the slots of a mask, as a pure function.

        Parameters
        ----------
        mask, state, starts
            As for `reset_where`.
        rngs : pytree of jax.Array, or None
            The keys of all slots, as from `_slot_keys`; None for the episodes that follow the
            present ones.

        Returns
        -------
        first, state, began
            Observations, which count only in the slots that began; the state of all slots; and the
            mask of the slots that began, which are more where agents of one world are slots.
        """

    @abstractmethod
    def _slot_keys(self, rng: jax.Array) -> Any:
        """The keys of the slots in `reset(rng)`, for `_begin_slots`."""

    def _reset_slots_where(
        self, mask: Any, obs: Any, state: Any, rng: Any, starts: Any
    ) -> tuple[Any, Any]:
        """`reset_where` as a pure function."""
        if self.layout is not None:
            mask, obs = reshard((mask, obs), self.layout)
        rngs = None if rng is None else self._slot_keys(rng)
        first, state, began = self._begin_slots(mask, state, rngs, starts)
        # `obs` came in tuples and dicts; what the environment has in their place is returned.
        structure: Any = jax.tree.structure(first)
        places = self._in_plain_containers(structure.unflatten(range(structure.num_leaves)))
        found = jax.tree.leaves(where_slots(began, self._in_plain_containers(first), obs))
        by_place: dict[int, Any] = dict(zip(jax.tree.leaves(places), found, strict=True))
        return structure.unflatten([by_place[i] for i in sorted(by_place)]), state

    def _in_plain_containers(self, obs: Any) -> Any:
        return map_leaves(lambda _, x: x, self.single_observation_space, obs)

    def _mask_slots(self, state: Any) -> Any:
        """`action_mask` as a pure function."""
        raise NotImplementedError

    def _active_slots(self, state: Any) -> dict[str, jax.Array]:
        """`active` as a pure function."""
        raise NotImplementedError

    @property
    def copied_env(self) -> AnyEnv | None:
        """
        The environment of which every slot is a copy.

        None if the slots are no copies of one, or a wrapper cannot begin episodes in some of them.
        """
        return None

    @hands_on
    @refuses_seed
    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        """
        Begin an episode in every slot.

        Parameters
        ----------
        rng : jax.Array
            One PRNG key, typed or legacy. Copy i of a `VecEnv` gets
            `jax.random.split(rng, num_envs)[i]`.

        Raises
        ------
        TypeError
            If `rng` is not a PRNG key.
        ValueError
            If `rng` is a batch of keys, or a key of the wrong shape.
        """
        who = type(self).__name__
        require_key(rng, f"{who}.reset", f"Pass one key; {who} splits it.")
        for write in self._write_first:
            write()
        return self._reset_program(self._replicated(copy_numpy(rng), "reset"))

    @hands_on
    def step(self, state: Any, actions: Any) -> tuple[Any, Any, jax.Array, jax.Array, Info]:
        """
        Take one step in every slot, with auto-reset.

        Actions of the right kind (bool, integer, float) are cast to the dtype of the space.

        Raises
        ------
        TypeError
            If actions are of another kind, or the types of reset and step differ.
        ValueError
            If actions are of another shape or structure, or if `final_obs=True` and the environment
            has an info that this option adds.
        """
        for write in self._write_first:
            write()
        return self._step_with(state, actions, self._options)

    def _step_with(self, state: Any, actions: Any, options: StepOptions) -> Any:
        actions = conform(self.action_space, actions, f"{type(self).__name__}.step")
        state = self._copies(state)
        if self.layout is not None:
            state = self._on_mesh(state, "step")
            actions = to_sharding(actions, self.layout, f"{type(self).__name__}.step")
        return self._step_program.call(state, actions, options)

    @hands_on
    def reset_where(
        self, mask: Any, obs: Any, state: Any, rng: jax.Array | None = None, *, starts: Any = None
    ) -> tuple[Any, Any]:
        who = f"{type(self).__name__}.reset_where"
        mask = require_mask(who, mask, self.n_slots)
        if rng is not None:
            require_key(rng, who, "Pass one key, as to `reset`.")
            rng = self._replicated(copy_numpy(rng), "reset_where")
        for write in self._write_first:
            write()
        obs = conform(self.observation_space, obs, who, "obs", "Pass what reset or step returned.")
        state = self._on_mesh(copy_numpy(state), "reset_where")
        starts = copy_numpy(starts)
        if self.layout is not None:
            mask, obs, starts = to_sharding((mask, obs, starts), self.layout, who)
        return self._begin_program(mask, obs, state, rng, starts)

    @hands_on
    def action_mask(self, state: Any) -> Any:
        return self._mask_program(self._on_mesh(copy_numpy(state), "action_mask"))

    @hands_on
    def active(self, state: Any) -> dict[str, jax.Array]:
        if not self.agents:
            return {}
        return self._active_program(self._on_mesh(copy_numpy(state), "active"))

    def render(self, state: Any, *, index: int = 0) -> np.ndarray:
        """Draw one slot, as `render_slot`."""
        return self.render_slot(state, index)

    def _replicated(self, rng: jax.Array, method: str) -> jax.Array:
        """The key that the caller passed, on every device of the mesh."""
        if self.layout is None:
            return rng
        whole = NamedSharding(self.layout.mesh, PartitionSpec())
        return to_sharding(rng, whole, f"{type(self).__name__}.{method}")

    def _on_mesh(self, state: Any, method: str) -> Any:
        """The state that the caller passed, moved to the mesh."""
        if self.layout is None:
            return state
        return self._place_state(state, f"{type(self).__name__}.{method}")

    def _place_state(self, state: Any, who: str) -> Any:
        assert self.layout is not None
        return to_sharding(state, self.layout, who)

    def compile(self, cache_dir: CacheDir = DEFAULT_CACHE_DIR) -> None:
        if self.compilation is not None:
            self.compiled_with = Compilation(cache_dir, self.compilation.donate)
            whole = self.layout and NamedSharding(self.layout.mesh, PartitionSpec())
            programs = self._reset_program, self._step_program
            compile_pair(*programs, self._step_types, cache_dir, whole)

    def _step_types(self, returned: Any) -> tuple[Any, Any, StepOptions]:
        """The types of the arguments of `step`, from those of the results of `reset`."""
        actions = conformed_types(self.action_space)
        if self.layout is not None:
            layouts = jax.tree.map(lambda _: self.layout, actions)
            actions = with_shardings(actions, layouts)
        return returned[1], actions, self._options


CompiledBatch.step.__qualname__ = "BatchedEnv.step"  # for Python's message on a missing argument


def compilation_of(batch: AnyBatch) -> Compilation | None:
    """The options with which a batch is compiled, for what is around it; None if it is not."""
    if isinstance(batch, CompiledBatch):
        return batch.compilation
    return None if is_straight(batch) else Compilation()


def layout_of(env: Any) -> NamedSharding | None:
    """The sharding of the slots of a batch over a mesh; None if it is not sharded, or no batch."""
    return env.layout if isinstance(env, CompiledBatch) else None
