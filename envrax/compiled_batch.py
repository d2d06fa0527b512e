"""`CompiledBatch`: the base class of batches that compile their functions."""

from abc import abstractmethod
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from envrax._checks.masks import require_mask
from envrax._jax.cache import DEFAULT_CACHE_DIR, CacheDir, Compilation
from envrax._jax.compiled import Compiled, compile_pair
from envrax._jax.keys import require_key
from envrax._jax.mesh import reshard, to_sharding, where_slots
from envrax._jax.per_object import program_per_env
from envrax._jax.types import output_types
from envrax.batched_env import BatchedEnv
from envrax.env import ActSpaceT, AnyEnv, Info, ObsSpaceT
from envrax.spaces.conform import conform


class CompiledBatch(BatchedEnv[ObsSpaceT, ActSpaceT]):
    """
    A batch whose functions are compiled on first use, or by `compile`.

    A subclass defines the pure functions `_reset_slots` and `_step_slots`, and calls `_use`.
    Arguments are checked here, once: the key, the actions, and the placement of arrays on a mesh.

    Attributes
    ----------
    compilation : Compilation or None
        Options of the compilation; None if the batch is not compiled.
    layout : jax.sharding.NamedSharding or None
        The sharding of the slots over a mesh; None if the batch is not sharded.
    """

    compilation: Compilation | None
    layout: NamedSharding | None
    compiled_to: tuple[CacheDir] | None = None  # the persistent cache of `compile`; None before
    _result_layout: NamedSharding | None = None  # of all results; None if the program decides

    def _use(self, compilation: Compilation | None, layout: NamedSharding | None = None) -> None:
        """Set how the batch is compiled, and the sharding of its slots."""
        self.compilation = compilation
        self.layout = layout
        self._reset: Any = self._reset_slots
        self._step: Any = self._step_slots
        if compilation is not None:
            donate = (0,) if compilation.donate else ()
            self._reset = Compiled(self._reset_slots, layout=self._result_layout)
            self._step = Compiled(self._step_slots, donate, self._result_layout)

    @abstractmethod
    def _reset_slots(self, rng: Any) -> Any:
        """`reset` as a pure function; `rng` may be a tuple as for `_begin_slots`."""

    @abstractmethod
    def _step_slots(self, state: Any, actions: Any) -> Any:
        """`step` as a pure function."""

    @abstractmethod
    def _begin_slots(self, mask: jax.Array, state: Any, start: Any) -> tuple[Any, Any, jax.Array]:
        """
        Begin an episode in the slots of a mask, as a pure function.

        Parameters
        ----------
        mask, state
            As for `reset_where`.
        start : pytree or None
            A PRNG key; or a tuple, the first observation and state of the environment for every
            slot; or None for the episodes that follow the present ones.

        Returns
        -------
        first, state, begun
            Observations, which count only in the slots that began; the state of all slots; and the
            mask of those that began.
        """

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

        None if there is none, or if a wrapper does not say what starts again in some slots.
        """
        return None

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
        if self.layout is not None:
            whole = NamedSharding(self.layout.mesh, PartitionSpec())
            rng = to_sharding(rng, whole, f"{who}.reset")
        return self._reset(rng)

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
        actions = conform(self.action_space, actions, f"{type(self).__name__}.step")
        if self.layout is not None:
            state = self._on_mesh(state, "step")
            actions = to_sharding(actions, self.layout, f"{type(self).__name__}.step")
        return self._step(state, actions)

    def reset_where(
        self, mask: Any, obs: Any, state: Any, rng: jax.Array | None = None
    ) -> tuple[Any, Any]:
        who = f"{type(self).__name__}.reset_where"
        mask = require_mask(who, mask, self.n_slots)
        if rng is not None:
            require_key(rng, who, "Pass one key, as to `reset`.")
        obs = conform(self.observation_space, obs, who, "obs", "Pass what reset or step returned.")
        if self.layout is not None:
            state = self._on_mesh(state, "reset_where")
            mask, obs = to_sharding((mask, obs), self.layout, who)
            whole = NamedSharding(self.layout.mesh, PartitionSpec())
            rng = None if rng is None else to_sharding(rng, whole, who)
        run = _compiled_reset_where(self) if self.compilation else partial(_reset_where, self)
        return run(mask, obs, state, rng)

    def action_mask(self, state: Any) -> Any:
        state = self._on_mesh(state, "action_mask")
        return _compiled_mask(self)(state) if self.compilation else self._mask_slots(state)

    def active(self, state: Any) -> dict[str, jax.Array]:
        if not self.agents:
            return {}
        state = self._on_mesh(state, "active")
        return _compiled_active(self)(state) if self.compilation else self._active_slots(state)

    def render(self, state: Any, *, index: int = 0) -> np.ndarray:
        """Draw one slot, as `render_slot`."""
        return self.render_slot(state, index)

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
            self.compiled_to = (cache_dir,)
            whole = self.layout and NamedSharding(self.layout.mesh, PartitionSpec())
            compile_pair(self._reset, self._step, self._step_types, cache_dir, whole)

    def _step_types(self, returned: Any) -> tuple[Any, Any]:
        """The types of the arguments of `step`, from those of the results of `reset`."""
        return returned[1], output_types(self.action_space.sample, self.layout)


def _mask(batch: Any, state: Any) -> Any:
    return batch._mask_slots(state)


def _reset_where(batch: Any, mask: Any, obs: Any, state: Any, rng: Any) -> tuple[Any, Any]:
    if batch.layout is not None:
        mask, obs = reshard((mask, obs), batch.layout)
    first, state, begun = batch._begin_slots(mask, state, rng)
    return where_slots(begun, first, obs), state


def _active(batch: Any, state: Any) -> Any:
    return batch._active_slots(state)


_compiled_mask = program_per_env(_mask)
_compiled_reset_where = program_per_env(_reset_where)
_compiled_active = program_per_env(_active)


def compilation_of(batch: BatchedEnv[Any, Any]) -> Compilation | None:
    """The options with which a batch is compiled, for what is around it; None if it is not."""
    if isinstance(batch, CompiledBatch):
        return batch.compilation
    return Compilation() if batch.traceable else None


def layout_of(batch: BatchedEnv[Any, Any]) -> NamedSharding | None:
    """The sharding of the slots of a batch over a mesh; None if it is not sharded."""
    return batch.layout if isinstance(batch, CompiledBatch) else None


def with_final_obs(batch: BatchedEnv[Any, Any]) -> BatchedEnv[Any, Any]:
    """The batch with `infos["final_obs"]`; unchanged if it has no such option."""
    rebuild: Any = getattr(batch, "with_final_obs", None)
    return rebuild() if rebuild is not None else batch


def with_autoreset(batch: BatchedEnv[Any, Any]) -> BatchedEnv[Any, Any]:
    """The batch with auto-reset; unchanged if it has it, or has no such option."""
    rebuild: Any = getattr(batch, "with_autoreset", None)
    return rebuild() if rebuild is not None else batch


def without_final(infos: Info) -> Info:
    """The infos without `final_obs` and `final_mask`."""
    return {name: x for name, x in infos.items() if name not in ("final_obs", "final_mask")}


def require_final_obs(who: str, infos: Info) -> Any:
    """`infos["final_obs"]`, or an error."""
    if "final_obs" not in infos:
        raise TypeError(
            f"{who}: expected infos with `final_obs`; got {sorted(infos)}. Build the batch with "
            "`final_obs=True`; in a batch or a wrapper of your own, let `step` return it."
        )
    return infos["final_obs"]
