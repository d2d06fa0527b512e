"""`CompiledBatch`: the base of batches that compile their functions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from envrax._jax.cache import DEFAULT_CACHE_DIR, CacheDir, Compilation
from envrax._jax.compiled import Compiled, compile_pair
from envrax._jax.keys import require_key
from envrax._jax.mesh import to_sharding
from envrax._jax.types import output_types
from envrax.batched_env import BatchedEnv
from envrax.env import ActSpaceT, Info, ObsSpaceT
from envrax.spaces.conform import conform


class Functions(NamedTuple):
    """Pure functions of a batch, with the signatures of `BatchedEnv`."""

    reset: Callable[[jax.Array], Any]
    step: Callable[[Any, Any], Any]
    action_mask: Callable[[Any], Any]
    active: Callable[[Any], dict[str, jax.Array]]


class CompiledBatch(BatchedEnv[ObsSpaceT, ActSpaceT]):
    """
    A batch of pure functions, compiled on first use or by `compile`.

    A subclass calls `_use` with its functions. Arguments are checked here, once: the key, the
    actions, and the placement of arrays on a mesh.

    Attributes
    ----------
    compilation : Compilation or None
        Options of the compilation; None for a batch that is not compiled.
    layout : jax.sharding.NamedSharding or None
        The sharding of the slots over a mesh; None for one device.
    """

    compilation: Compilation | None
    layout: NamedSharding | None

    def _use(
        self,
        functions: Functions,
        compilation: Compilation | None,
        layout: NamedSharding | None = None,
        results: NamedSharding | None = None,
    ) -> None:
        """Set the functions, their compilation, and the shardings of slots and of all results."""
        self.compilation, self.layout = compilation, layout
        reset, step, mask, active = functions
        if compilation is not None:
            reset = Compiled(reset, (), results)
            step = Compiled(step, (0,) if compilation.donate else (), results)
            mask, active = Compiled(mask, (), results), Compiled(active, (), results)
        self._reset, self._step, self._mask, self._active = reset, step, mask, active

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
            rng = to_sharding(rng, NamedSharding(self.layout.mesh, PartitionSpec()), f"{who}.reset")
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
            has an info of that name.
        """
        state = self._own(state, "step")
        actions = conform(self.action_space, actions, f"{type(self).__name__}.step")
        if self.layout is not None:
            actions = to_sharding(actions, self.layout, f"{type(self).__name__}.step")
        return self._step(state, actions)

    def action_mask(self, state: Any) -> Any:
        return self._mask(self._own(state, "action_mask"))

    def active(self, state: Any) -> dict[str, jax.Array]:
        return self._active(self._own(state, "active")) if self.agents else {}

    def render(self, state: Any, *, index: int = 0) -> np.ndarray:
        """Draw one slot, as `render_slot`."""
        return self.render_slot(state, index)

    def _own(self, state: Any, method: str) -> Any:
        """The state, placed on the mesh."""
        if self.layout is not None:
            state = self._placed(state, f"{type(self).__name__}.{method}")
        return state

    def _placed(self, state: Any, who: str) -> Any:
        assert self.layout is not None
        return to_sharding(state, self.layout, who)

    def compile(self, cache_dir: CacheDir = DEFAULT_CACHE_DIR) -> None:
        if isinstance(self._reset, Compiled) and isinstance(self._step, Compiled):
            whole = self.layout and NamedSharding(self.layout.mesh, PartitionSpec())
            compile_pair(self._reset, self._step, self._step_types, cache_dir, whole)

    def _step_types(self, returned: Any) -> tuple[Any, Any]:
        """The types of the arguments of `step`, from those of the results of `reset`."""
        return returned[1], output_types(self.action_space.sample, self.layout)


def compilation_of(batch: BatchedEnv[Any, Any]) -> Compilation | None:
    """How a batch, or a fleet or wrapper around it, is compiled; None for not at all."""
    if isinstance(batch, CompiledBatch):
        return batch.compilation
    return Compilation() if batch.traceable else None


def layout_of(batch: BatchedEnv[Any, Any]) -> NamedSharding | None:
    """The sharding of the slots of a batch over a mesh; None for one device."""
    return batch.layout if isinstance(batch, CompiledBatch) else None


def with_final_obs(batch: BatchedEnv[Any, Any]) -> BatchedEnv[Any, Any]:
    """The batch with `infos["final_obs"]`; unchanged if it has no such option."""
    rebuild: Any = getattr(batch, "with_final_obs", None)
    return rebuild() if rebuild is not None else batch


def require_final_obs(who: str, infos: Info) -> Any:
    """`infos["final_obs"]`, or an error."""
    if "final_obs" not in infos:
        raise TypeError(
            f"{who}: expected infos with `final_obs`; got {sorted(infos)}. Build the batch with "
            "`final_obs=True`."
        )
    return infos["final_obs"]
