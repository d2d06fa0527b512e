"""Batches whose slots are spread over the devices of a mesh."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from envrax._checks.counts import slot_index
from envrax._jax.cache import DEFAULT_CACHE_DIR, CacheDir
from envrax._jax.keys import split_key
from envrax._jax.mesh import over_shards, to_global, to_local, to_sharding
from envrax._jax.types import is_traced
from envrax.autoreset.rule import reset_slots
from envrax.batched_env import AnyBatch, StepOptions
from envrax.compiled_batch import CompiledBatch
from envrax.env import ActSpaceT, AnyEnv, ObsSpaceT
from envrax.spaces import Space
from envrax.spaces.conform import conformed_types
from envrax.vec_env import VecEnv, require_slots
from envrax.wrappers.vector.base import BatchedWrapper, ForwardingBatch


def shard(batched_env: AnyBatch, mesh: Mesh, axis: str | None = None) -> AnyBatch:
    """
    Spread the slots of a batch over the devices of a mesh.

    Each device resets and steps its own slots under `jax.shard_map`, without communication. Slot i
    has the same key and the same trajectory on any number of devices, up to the rounding that
    `envrax.autoreset.Compact` describes.

    Wrappers around the batch are put around the sharded batch: their statistics cover all slots.

    Parameters
    ----------
    batched_env : BatchedEnv
        A `VecEnv`, or wrappers around one.
    mesh : jax.sharding.Mesh
        The devices, also of several processes. Along `Auto` axes the compiler chooses the sharding
        of all that you compute; along `Explicit` ones, the default of `jax.make_mesh`, you may have
        to give it.
    axis : str, optional
        The mesh axis along which the slots lie; the first one if not given. Devices along other
        axes compute the same slots.

    Returns
    -------
    BatchedEnv
        A `ShardedEnv`, in the wrappers that were around the batch. The result of `reset` and `step`
        is sharded along `axis`.

    Raises
    ------
    TypeError
        If it is not a batch or cannot be divided, or `mesh` is not a mesh.
    ValueError
        If the mesh has no such axis, or the number of slots is not a multiple of its size.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> from jax.sharding import AxisType
    >>> mesh = jax.make_mesh((1,), ("slots",), axis_types=(AxisType.Auto,))
    >>> env = shard(VecEnv(CountingEnv(), 4), mesh)
    >>> obs, state = env.reset(jax.random.key(0))
    >>> obs.sharding.spec[0]
    'slots'
    """
    if not isinstance(cast(Any, mesh), Mesh):
        raise TypeError(
            f"shard: expected a jax.sharding.Mesh; got {mesh!r}. Make one with "
            '`jax.make_mesh((jax.device_count(),), ("slots",), axis_types=(AxisType.Auto,))`.'
        )
    if isinstance(batched_env, ShardedEnv):
        batched_env = batched_env.env
    if isinstance(batched_env, BatchedWrapper):
        return batched_env.around(shard(batched_env.env, mesh, axis))
    if not isinstance(batched_env, VecEnv) or batched_env.copied_env is None:
        raise TypeError(
            "shard: expected a `VecEnv` that overrides no method, or wrappers around one; got "
            f"{batched_env!r}. Shard a batch before it is wrapped, and each member of a fleet."
        )
    return ShardedEnv(cast(VecEnv[Any, Any, Any, Any], batched_env), mesh, axis)


class ShardedEnv(ForwardingBatch[ObsSpaceT, ActSpaceT], CompiledBatch[ObsSpaceT, ActSpaceT]):
    """
    A batch whose slots are spread over the devices of a mesh; `shard` makes it.

    Attributes
    ----------
    env : VecEnv
        The batch before sharding.
    mesh : jax.sharding.Mesh
        The devices.
    axis : str
        The mesh axis along which the slots lie.
    """

    env: Any  # a VecEnv

    def __init__(
        self, env: VecEnv[ObsSpaceT, ActSpaceT, Any, Any], mesh: Mesh, axis: str | None = None
    ) -> None:
        axis = cast(str, mesh.axis_names[0]) if axis is None else axis
        if axis not in mesh.axis_names:
            raise ValueError(f"shard: expected one axis of {mesh.axis_names}; got {axis!r}.")
        self.mesh, self.axis = mesh, axis
        self.n_shards: int = mesh.shape[axis]
        if env.num_envs % self.n_shards:
            raise ValueError(
                "shard: expected a number of slots, or of worlds, that is a multiple of "
                f"{self.n_shards}, the size of mesh axis {axis!r}; got {env!r}."
            )
        self.env = env
        n = env.num_envs // self.n_shards
        how: Any = dict(autoreset=cast(Any, env)._autoreset, jit_compile=False)
        self._of_device: Any = VecEnv(env.env, n, **how)
        self._options = self.env._options
        self._result_layout = NamedSharding(mesh, PartitionSpec(axis))
        self._use(env.compilation, self._result_layout)

    def _reset_slots(self, rng: jax.Array) -> Any:
        whole = NamedSharding(self.mesh, PartitionSpec())
        return over_shards(self._reset_part, whole, self.sharding)(rng)

    def _reset_part(self, rng: jax.Array) -> Any:
        # A slot has the same key wherever it lives.
        rngs = self._slot_keys(rng)
        n = self._of_device.num_envs
        first = jax.lax.axis_index(self.axis) * n
        return reset_slots(self.env.env, jax.lax.dynamic_slice_in_dim(rngs, first, n))

    def _slot_keys(self, rng: jax.Array) -> jax.Array:
        return split_key(rng, self.num_envs)

    def _step_slots(self, state: Any, actions: Any, options: StepOptions) -> Any:
        return self._on_each_shard(partial(self._of_device._step_slots, options=options))(
            state, actions
        )

    def _begin_slots(self, mask: Any, state: Any, *how: Any) -> tuple[Any, Any, jax.Array]:
        return self._on_each_shard(self._of_device._begin_slots)(mask, state, *how)

    def _mask_slots(self, state: Any) -> Any:
        return self._on_each_shard(self._of_device._mask_slots)(state)

    def _active_slots(self, state: Any) -> dict[str, jax.Array]:
        return self._on_each_shard(self._of_device._active_slots)(state)

    def _on_each_shard(self, function: Callable[..., Any]) -> Any:
        return over_shards(function, self.sharding, self.sharding)

    @property
    def num_envs(self) -> int:
        """The number of slots, or of worlds."""
        return self.env.num_envs

    @property
    def config(self) -> Any:
        """The configuration of the environment."""
        return self.env.config

    @property
    def observation_space(self) -> Space:
        return self.env.observation_space

    @property
    def action_space(self) -> Space:
        return self.env.action_space

    @property
    def sharding(self) -> NamedSharding:
        """The sharding of the results of `reset` and `step`."""
        return cast(NamedSharding, self.layout)

    @property
    def copied_env(self) -> AnyEnv | None:
        return self.env.copied_env

    def _place_state(self, state: Any, who: str) -> Any:
        require_slots(state, self.num_envs, who)
        return super()._place_state(state, who)

    def slot_state(self, state: Any, slot_idx: int | jax.Array = 0) -> Any:
        """
        The state of one slot, on the device that holds it.

        Raises
        ------
        ValueError
            If another process holds it.
        """
        if is_traced((state, slot_idx)):
            return self.env.slot_state(state, slot_idx)
        return self.env.slot_state(*self._here(state, slot_idx, "slot_state"))

    def render_slot(self, state: Any, slot_idx: int = 0) -> np.ndarray:
        return self.env.render_slot(*self._here(state, slot_idx, "render_slot"))

    @property
    def local_slots(self) -> np.ndarray:
        """Indices of the slots that this process holds, in the order of `to_local`."""
        n = self.n_slots // self.n_shards
        here = self.sharding.addressable_devices_indices_map((self.n_slots,)).values()
        starts = sorted({index[0].start or 0 for index in here if index})
        return np.concatenate([np.arange(start, start + n) for start in starts])

    def to_global(self, tree: Any) -> Any:
        """
        Global arrays of all slots, from the rows of the slots that this process holds.

        Parameters
        ----------
        tree : pytree of array
            Leading axis: the number of slots of this process.

        Returns
        -------
        pytree of jax.Array
            Leading axis: all slots. Every process has to make this call.
        """
        n = len(self.local_slots)
        for x in jax.tree.leaves(tree):
            if np.shape(x)[:1] != (n,):
                raise ValueError(
                    f"ShardedEnv.to_global: expected arrays of the {n} slots of this process; got "
                    f"one of shape {np.shape(x)}. Pass a row for each of `local_slots`."
                )
        return jax.tree.map(partial(to_global, layout=self.sharding), tree)

    def to_local(self, tree: Any) -> Any:
        """The rows of the slots that this process holds; the inverse of `to_global`."""
        return jax.tree.map(partial(to_local, layout=self.sharding), tree)

    def compile(self, cache_dir: CacheDir = DEFAULT_CACHE_DIR) -> None:
        super().compile(cache_dir)
        if self.compilation is not None and self.sharding.is_fully_addressable:
            # JAX also compiles the transfer of actions that lie on one device.
            actions = conformed_types(self.action_space)
            actions = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), actions)
            to_sharding(jax.device_put(actions), self.sharding, "ShardedEnv.compile")

    def _here(self, state: Any, slot_idx: Any, method: str) -> tuple[Any, int]:
        """The state of the shard that holds a slot, and the index of the slot there."""
        index = slot_index(f"ShardedEnv.{method}", slot_idx, self.n_slots)
        number, within = divmod(index, self.n_slots // self.n_shards)

        def of_shard(x: Any) -> Any:
            start = number * (x.shape[0] // self.n_shards)
            for piece in x.addressable_shards:
                if (piece.index[0].start or 0) == start:
                    return piece.data
            raise ValueError(
                f"ShardedEnv: expected one of the slots that this process holds, `local_slots`; "
                f"got {index}."
            )

        return jax.tree.map(of_shard, self._on_mesh(state, method)), within

    def __repr__(self) -> str:
        return f"ShardedEnv({self.env!r}, {self.axis}={self.n_shards})"
