"""Batches whose slots are spread over the devices of a mesh."""

import operator
from functools import partial
from typing import Any, cast

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from envrax._jax.cache import DEFAULT_CACHE_DIR, CacheDir, Compilation
from envrax._jax.keys import require_key
from envrax._jax.mesh import over_shards, placed, to_global, to_local
from envrax._jax.programs import (
    Compiled,
    CompiledEnv,
    is_traced,
    next_step,
    output_types,
    require_not_donated,
    typed,
)
from envrax.autoreset.slot import require_slots
from envrax.batched_env import BatchedEnv, Part
from envrax.env import ActSpaceT, Info, ObsSpaceT
from envrax.spaces import Space
from envrax.spaces.conform import conform
from envrax.wrappers.vector.around import AroundBatch
from envrax.wrappers.vector.base import BatchedWrapper

AnyBatchedEnv = BatchedEnv[Any, Any]
_MOST_SLOTS = 2**31 - 1


def shard(batched_env: AnyBatchedEnv, mesh: Mesh, axis: str | None = None) -> AnyBatchedEnv:
    """
    Spread the slots of a batch over the devices of a mesh.

    Each device resets and steps its own slots under `jax.shard_map`; nothing passes between them.
    Slot i has the same key and the same trajectory on any number of devices, but for the rounding
    that `envrax.autoreset.Compact` describes.

    A wrapper around a batch goes around the sharded one: its statistics are those of all slots.

    Parameters
    ----------
    batched_env : BatchedEnv
        A `VecEnv`, a batch of worlds with several agents, or wrappers around one of them.
    mesh : jax.sharding.Mesh
        The devices, also those of several processes. With `Auto` axes the compiler lays out what is
        computed from them; over `Explicit` ones, the default of `jax.make_mesh`, you may have to.
    axis : str, optional
        The mesh axis along which the slots lie; the first one if not given. Along other axes every
        device computes the same.

    Returns
    -------
    BatchedEnv
        A `ShardedEnv`, in the wrappers that were around the batch. What `reset` and `step` return
        is sharded along `axis`.

    Raises
    ------
    TypeError
        If it is no batch, or one whose slots cannot be divided; or `mesh` is no mesh.
    ValueError
        If the mesh has no such axis, or the number of slots is no multiple of its size.

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
    if not isinstance(cast(Any, batched_env), BatchedEnv):
        raise TypeError(
            f"shard: expected a BatchedEnv, such as `make_vec` returns; got {batched_env!r}. Of a "
            "fleet, shard the members."
        )
    if not isinstance(cast(Any, mesh), Mesh):
        raise TypeError(
            f"shard: expected a jax.sharding.Mesh; got {mesh!r}. Make one with "
            '`jax.make_mesh((jax.device_count(),), ("slots",), axis_types=(AxisType.Auto,))`.'
        )
    if isinstance(batched_env, ShardedEnv):
        batched_env = batched_env.env
    if isinstance(batched_env, BatchedWrapper):
        return batched_env.around(shard(batched_env.env, mesh, axis))
    return ShardedEnv(batched_env, mesh, axis)


class ShardedEnv(AroundBatch[ObsSpaceT, ActSpaceT]):
    """
    A batch whose slots are spread over the devices of a mesh; `shard` makes it.

    Attributes
    ----------
    env : BatchedEnv
        The batch as it is on one device.
    mesh : jax.sharding.Mesh
        The devices.
    axis : str
        The mesh axis along which the slots lie.
    """

    def __init__(
        self, env: BatchedEnv[ObsSpaceT, ActSpaceT], mesh: Mesh, axis: str | None = None
    ) -> None:
        axis = cast(str, mesh.axis_names[0]) if axis is None else axis
        if axis not in mesh.axis_names:
            raise ValueError(f"shard: expected one axis of {mesh.axis_names}; got {axis!r}.")
        self.env, self.mesh, self.axis = env, mesh, axis
        self.n_shards: int = mesh.shape[axis]
        self._sharding = NamedSharding(mesh, PartitionSpec(axis))
        self._part = _part(env, self.n_shards, axis)
        self._action_space = env.action_space
        self._on_every_device = NamedSharding(mesh, PartitionSpec())
        self._make_programs()

    def _make_programs(self) -> None:
        compilation = self.compilation
        self._donate = compilation is not None and compilation.donate
        slots, whole = self.sharding, self._on_every_device
        self._reset: Any = over_shards(self._reset_part, whole, slots)
        self._step: Any = over_shards(self._part.batch.step, slots, slots)
        self._mask: Any = over_shards(self._part.batch.action_mask, slots, slots)
        self._traced = self._reset, self._step, self._mask
        self._compiled: CompiledEnv | None = None
        if compilation is not None:
            args: Any = self._reset, self._step, self._next_step, self._donate, (whole, slots)
            self._compiled = CompiledEnv(*args)
            self._reset, self._step = self._compiled.reset, self._compiled.step
            self._mask = Compiled(self._mask, (), (slots, slots))

    def _actions(self) -> Any:
        return output_types(self._action_space.sample)

    def _next_step(self, returned: Any) -> tuple[Any, Any]:
        laid = partial(typed, layout=self.sharding)
        return jax.tree.map(laid, next_step(self._action_space.sample, returned))

    @property
    def sharding(self) -> NamedSharding:
        return self._sharding

    @property
    def num_envs(self) -> int:
        """The number of slots, or of worlds."""
        return getattr(self.env, "num_envs", getattr(self.env, "n_worlds", self.n_slots))

    @property
    def compilation(self) -> Compilation | None:
        return self.env.compilation

    @property
    def config(self) -> Any:
        """The configuration of the environment."""
        return cast(Any, self.env).config

    @property
    def observation_space(self) -> Space:
        return self.env.observation_space

    @property
    def action_space(self) -> Space:
        return self._action_space

    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        require_key(rng, "ShardedEnv.reset", "pass one key; ShardedEnv splits it.")
        if is_traced(rng):
            return self._traced[0](rng)
        return self._reset(placed(rng, self._on_every_device, "ShardedEnv.reset"))

    def step(self, state: Any, actions: Any) -> tuple[Any, Any, jax.Array, jax.Array, Info]:
        self._require_own(state, "step")
        require_slots(state, self.num_envs, "ShardedEnv")
        actions = conform(self._action_space, actions, "ShardedEnv.step")
        if is_traced((state, actions)):
            return self._traced[1](state, actions)
        return self._step(*placed((state, actions), self.sharding, "ShardedEnv.step"))

    def action_mask(self, state: Any) -> Any:
        self._require_own(state, "action_mask")
        if is_traced(state):
            return self._traced[2](state)
        return self._mask(placed(state, self.sharding, "ShardedEnv.action_mask"))

    def with_final_obs(self) -> "ShardedEnv[ObsSpaceT, ActSpaceT]":
        inner = self.env.with_final_obs()
        return self if inner is self.env else ShardedEnv(inner, self.mesh, self.axis)

    def slot_state(self, state: Any, slot_idx: int | jax.Array = 0) -> Any:
        """
        The state of one slot, on the device that holds it.

        Raises
        ------
        ValueError
            If another process holds it.
        """
        self._require_own(state, "slot_state")
        if is_traced((state, slot_idx)):
            return self.env.slot_state(state, slot_idx)
        batch, here, within = self._here(state, self._index("slot_state", slot_idx))
        return batch.slot_state(here, within)

    def render_slot(self, state: Any, slot_idx: int = 0) -> np.ndarray:
        self._require_own(state, "render_slot")
        batch, here, within = self._here(state, self._index("render_slot", slot_idx))
        return batch.render_slot(here, within)

    def render(self, state: Any, *, index: int = 0) -> np.ndarray:
        """Draw one slot, as `render_slot`."""
        return self.render_slot(state, index)

    @property
    def local_slots(self) -> np.ndarray:
        """Indices of the slots that this process holds, in the order of `to_local`."""
        n = self.n_slots // self.n_shards
        here = self.sharding.addressable_devices_indices_map((self.n_slots,)).values()
        starts = sorted({index[0].start or 0 for index in here if index})
        return np.concatenate([np.arange(start, start + n) for start in starts])

    def to_global(self, tree: Any) -> Any:
        """
        Arrays of all slots, of those of the slots that this process holds.

        Parameters
        ----------
        tree : pytree of array
            Leading axis: the number of slots of this process.

        Returns
        -------
        pytree of jax.Array
            Leading axis: all slots of all processes, each of which makes this call.
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
        """The slots that this process holds, of arrays of all slots; undoes `to_global`."""
        return jax.tree.map(partial(to_local, layout=self.sharding), tree)

    def compile(self, cache_dir: CacheDir = DEFAULT_CACHE_DIR) -> None:
        if self._compiled is not None:
            self._compiled.compile(cache_dir)
        if self._compiled is not None and self.sharding.is_fully_addressable:
            # JAX compiles how it divides the actions of a policy on one device.
            actions = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), self._actions())
            placed(jax.device_put(actions), self.sharding, "ShardedEnv.compile")

    def _reset_part(self, rng: jax.Array) -> Any:
        return self._part.reset(rng, jax.lax.axis_index(self.axis))

    def _index(self, method: str, slot_idx: Any) -> int:
        index = operator.index(slot_idx)
        if not -self.n_slots <= index < self.n_slots:
            raise IndexError(
                f"ShardedEnv.{method}: expected an index from {-self.n_slots} to "
                f"{self.n_slots - 1}; got {index}."
            )
        return index % self.n_slots

    def _here(self, state: Any, index: int) -> tuple[AnyBatchedEnv, Any, int]:
        """The batch of the shard that holds a slot, its state, and the index there."""
        require_slots(state, self.num_envs, "ShardedEnv")
        n = self.n_slots // self.n_shards
        number, within = divmod(index, n)

        def of_shard(x: Any) -> Any:
            start = number * (x.shape[0] // self.n_shards)
            for part in x.addressable_shards:
                if (part.index[0].start or 0) == start:
                    return part.data
            raise ValueError(
                f"ShardedEnv: expected one of the slots that this process holds, `local_slots`; "
                f"got {index}."
            )

        state = jax.device_put(state, self.sharding)
        return self._part.batch, jax.tree.map(of_shard, state), within

    def _require_own(self, state: Any, method: str) -> None:
        if self._donate:
            require_not_donated(state, f"ShardedEnv.{method}")

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "ShardedEnv: expected a batch that can be copied to another process; got one on a "
            "mesh, whose devices cannot. Pickle `env.env`, and `shard` it there."
        )

    def __repr__(self) -> str:
        return f"ShardedEnv({self.env!r}, {self.axis}={self.n_shards})"


def _part(env: AnyBatchedEnv, n_shards: int, axis: str) -> Part:
    """The part of a batch that a shard holds, or an error."""
    part = env.part(n_shards)
    if part is None and env.part(1) is None:
        raise TypeError(
            f"shard: expected a batch whose slots can be divided, such as a `VecEnv`; got {env!r}. "
            "Shard it before it is wrapped, or override its `part`."
        )
    if part is None:
        raise ValueError(
            f"shard: expected a number of slots, or of worlds, that is a multiple of {n_shards}, "
            f"the size of mesh axis {axis!r}; got {env!r}."
        )
    if env.n_slots > _MOST_SLOTS:
        raise ValueError(
            f"shard: expected at most {_MOST_SLOTS} slots, whose indices are int32; got {env!r}. "
            "Make several batches."
        )
    return part
