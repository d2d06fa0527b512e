"""Strategies to reset the slots that ended."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isqrt
from typing import Any, Protocol, cast

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap

from envrax._checks import require_count
from envrax._jax.keys import clone_keys
from envrax._jax.mesh import is_sharded, varying_like

# `(constants, what a reset reads of one slot's last state) -> leaves of the slot's next episode`.
ResetOne = Callable[[list[Any], Any], Any]
Sizes = tuple[int, int]  # of a chunk, and of one of the rest
Carry = tuple[jax.Array, Any]  # how many slots are reset, and all slots as they are then


class AutoReset(Protocol):
    """A strategy to reset the slots that ended. All of them give the same result."""

    def __call__(
        self, reset_one: ResetOne, consts: list[Any], last: Any, ended: jax.Array, stepped: Any
    ) -> Any:
        """
        Reset the slots that ended.

        Parameters
        ----------
        reset_one : callable
            `(consts, last) -> first obs and state` of one slot's next episode.
        consts : list
            The arrays that `reset_one` uses beside `last`, traced ones included.
        last : pytree
            What `reset_one` reads of the state after the step, leading axis N: the PRNG keys, and
            more where `JaxEnv.reset_after` is overridden.
        ended : jax.Array
            bool[N].
        stepped : pytree
            Obs and state after the step, leading axis N, structured as `reset_one` returns them.
            What a reset leaves as it is, is left out.

        Returns
        -------
        pytree
            `stepped`, with what `reset_one` returns in the slots that ended.
        """
        ...


@dataclass(frozen=True)
class Select:
    """
    Reset every slot on every step, and keep the result where the episode ended.

    Fastest where a reset is cheap and many slots run in parallel, as on a GPU.
    """

    def __call__(
        self, reset_one: ResetOne, consts: list[Any], last: Any, ended: jax.Array, stepped: Any
    ) -> Any:
        def select(last: Any, ended: jax.Array, stepped: Any) -> Any:
            return jax.tree.map(partial(jnp.where, ended), reset_one(consts, last), stepped)

        return jax.vmap(select)(last, ended, stepped)


@dataclass(frozen=True)
class Compact:
    """
    Reset only the slots that ended: gather what their resets read, which is a key unless
    `JaxEnv.reset_after` is overridden, reset a chunk at a time, scatter back.

    Equal to `Select` bit for bit, except that XLA may round floats inside a reset differently, in
    the last bit, at another batch width: a reduction, a matrix product, and with some versions a
    multiply-add or an `exp`, of which `jax.random.normal` is made.

    Inside a `shard_map` every device resets those of its own slots that ended.

    Attributes
    ----------
    chunk : int, optional
        How many slots are reset at a time. By default a sixteenth of the batch.
    rest : int, optional
        How many at a time once no more than half a chunk is left. By default a chunk all the same:
        another size is another copy of the reset to compile.
    """

    chunk: int | None = None
    rest: int | None = None

    def __post_init__(self) -> None:
        for name, size in (("chunk", self.chunk), ("rest", self.rest)):
            if size is not None:
                require_count(f"Compact: expected {name}", size)

    def __call__(
        self, reset_one: ResetOne, consts: list[Any], last: Any, ended: jax.Array, stepped: Any
    ) -> Any:
        select = partial(Select(), reset_one)
        stepped = varying_like((consts, last, ended), stepped)
        chunk = min(self.chunk or max(1, ended.size // 16), ended.size)
        sizes = chunk, min(self.rest or chunk, chunk)

        # A loop of unknown length has no reverse mode; a select has.
        merge = jax.custom_jvp(partial(_reset_ended, reset_one, sizes))
        merge.defjvp(partial(jax.jvp, select))
        return merge(consts, last, ended, stepped)


def _reset_ended(reset_one: ResetOne, sizes: Sizes, *args: Any) -> Any:
    """Reset in chunks, if any slot ended. Under `vmap` all batches become one."""
    n_slots = args[2].size

    @custom_vmap
    def merge(consts: list[Any], last: Any, ended: jax.Array, stepped: Any) -> Any:
        def reset_some() -> Any:
            return _reset_in_chunks(partial(reset_one, consts), sizes, last, ended, stepped)

        return cast(Any, lax.cond(jnp.any(ended), reset_some, lambda: stepped))

    @merge.def_vmap
    def merge_all(n_batches: int, is_batched: list[Any], consts: list[Any], *slots: Any) -> Any:
        # They cannot become one if what a reset uses differs between them, if there are none, or if
        # they lie along an Explicit mesh axis, where JAX refuses the gather.
        is_own = any(jax.tree.leaves(is_batched[0]))
        if is_own or n_batches == 0 or is_sharded((consts, slots)):
            axes = jax.tree.map(lambda batched: 0 if batched else None, tuple(is_batched))
            out = jax.vmap(partial(Select(), reset_one), axes)(consts, *slots)
        else:
            as_one = jax.tree.map(partial(_flattened, n_batches), slots, tuple(is_batched[1:]))
            out = _reset_ended(reset_one, _grown(sizes, n_slots, n_batches), consts, *as_one)
            out = jax.tree.map(lambda x: x.reshape(n_batches, n_slots, *x.shape[1:]), out)
        return out, jax.tree.map(lambda _: True, out)

    return merge(*args)


def _grown(sizes: Sizes, n_slots: int, n_batches: int) -> Sizes:
    """
    Chunk sizes for several batches in one.

    A chunk that is a sixteenth of its batch, or more, remains that share. A smaller chunk grows
    with the square root of the number of batches: few iterations, few wasted resets.
    """
    is_share = 1 < sizes[0] >= n_slots // 16
    factor = n_batches if is_share else isqrt(n_batches)
    chunk, rest = (min(n_batches * n_slots, size * factor) for size in sizes)
    return chunk, rest


def _flattened(n_batches: int, x: jax.Array, is_batched: bool) -> jax.Array:
    """The slots of all batches along one axis."""
    x = x if is_batched else jnp.broadcast_to(x, (n_batches, *x.shape))
    return x.reshape(n_batches * x.shape[1], *x.shape[2:])


def _reset_in_chunks(
    reset: Callable[[Any], Any], sizes: Sizes, last: Any, ended: jax.Array, stepped: Any
) -> Any:
    # How many slots ended up to each one, itself included.
    count = jnp.cumsum(ended, dtype=jnp.int32)

    def reset_by(size: int, at_least: int, carry: Carry) -> Carry:
        """Chunks of `size`, as long as `at_least` as many slots are left."""
        places = jnp.arange(1, size + 1, dtype=jnp.int32)

        def is_pending(carry: Carry) -> jax.Array:
            return carry[0] + at_least <= count[-1]

        def reset_chunk(carry: Carry) -> Carry:
            n_done, merged = carry
            slots = _first_at_least(count, n_done + places)  # N beyond the last that ended
            take = partial(jnp.take, indices=slots, axis=0, mode="clip")
            new = jax.vmap(reset)(jax.tree.map(take, clone_keys(last)))
            merged = jax.tree.map(lambda m, n: m.at[slots].set(n, mode="drop"), merged, new)
            return n_done + size, merged

        return lax.while_loop(is_pending, reset_chunk, carry)

    (chunk, rest), carry = sizes, (jnp.int32(0), stepped)
    if rest < chunk:
        carry = reset_by(chunk, chunk // 2 + 1, carry)
    return reset_by(rest, 1, carry)[1]


def _first_at_least(count: jax.Array, values: jax.Array) -> jax.Array:
    """
    Index of the first entry of the sorted `count` that is at least each value; N if there is none.

    A binary search by hand: `jnp.searchsorted` of JAX 0.10 fails in a `shard_map` over some of the
    axes of a mesh.
    """

    def halve(_: Any, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds  # all before `low` are less, all from `high` on are not
        middle = low + (high - low) // 2
        is_less = count.at[middle].get(mode="clip") < values
        return jnp.where(is_less, middle + 1, low), jnp.where(is_less, high, middle)

    low = jnp.zeros_like(values) + 0 * count[0]  # the sum has the type that a `shard_map` wants
    bounds = low, low + count.size
    return cast(Any, lax.fori_loop(0, count.size.bit_length(), halve, bounds))[1]
