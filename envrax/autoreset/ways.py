"""The ways to replace the slots that ended."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isqrt
from typing import Any, Protocol, cast

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap

from envrax._count import require_count

# `(constants, rng of one slot) -> (obs, state)` of the slot's next episode.
Fresh = Callable[[list[Any], jax.Array], Any]


class AutoReset(Protocol):
    """A way to replace the slots that ended; all of them give the same result."""

    def __call__(
        self, fresh: Fresh, consts: list[Any], rng: jax.Array, ended: jax.Array, stepped: Any
    ) -> Any:
        """
        Replace the slots that ended.

        Parameters
        ----------
        fresh : callable
            `(consts, rng) -> (obs, state)`, the next episode of one slot.
        consts : list
            The arrays that `fresh` uses beside its key, traced ones included.
        rng : jax.Array
            The slots' PRNG keys after the step, leading axis N.
        ended : jax.Array
            bool[N].
        stepped : pytree
            What the step gave, leading axis N, of the same structure as `fresh` returns.

        Returns
        -------
        pytree
            `stepped` with the slots that ended replaced.
        """
        ...


@dataclass(frozen=True)
class Select:
    """Reset every slot on every step, keep those that ended: best where a reset is tiny."""

    def __call__(
        self, fresh: Fresh, consts: list[Any], rng: jax.Array, ended: jax.Array, stepped: Any
    ) -> Any:
        new = jax.vmap(fresh, (None, 0))(consts, rng)
        return jax.tree.map(lambda n, s: jax.vmap(jnp.where)(ended, n, s), new, stepped)


@dataclass(frozen=True)
class Compact:
    """
    Reset only the slots that ended: gather their keys, reset them in chunks, scatter back.

    Equal to `Select` bit for bit, except that XLA may round floats inside a reset differently, in
    the last bit, at another batch width: a reduction, a matrix product, and with some versions a
    multiply-add or an `exp`, of which `jax.random.normal` is made.

    Attributes
    ----------
    chunk : int, optional
        How many slots are reset together. By default a sixteenth of the batch.
    rest : int, optional
        How many when less than half a chunk is left. By default a chunk all the same: another size
        is another copy of the reset to compile.
    """

    chunk: int | None = None
    rest: int | None = None

    def __post_init__(self) -> None:
        for name, size in (("chunk", self.chunk), ("rest", self.rest)):
            if size is not None:
                require_count(f"Compact: expected {name}", size)

    def __call__(
        self, fresh: Fresh, consts: list[Any], rng: jax.Array, ended: jax.Array, stepped: Any
    ) -> Any:
        chunk = min(self.chunk or max(1, ended.size // 16), ended.size)
        sizes = chunk, min(self.rest or chunk, chunk)
        if in_shard_map():
            # A loop wants its carry to vary over the same axes at its start as later on. A select
            # knows them, and one that replaces nothing compiles to nothing.
            stepped = Select()(fresh, consts, rng, ended & False, stepped)

        @jax.custom_jvp  # a loop of unknown length has no reverse mode; a select has
        def merge(*args: Any) -> Any:
            return _replace(fresh, sizes, *args)

        def merge_jvp(primals: Any, tangents: Any) -> Any:
            def select(*args: Any) -> Any:
                return Select()(fresh, *args)

            return jax.jvp(select, primals, tangents)

        merge.defjvp(merge_jvp)
        return merge(consts, rng, ended, stepped)


def _replace(fresh: Fresh, sizes: tuple[int, int], *args: Any) -> Any:
    """
    Reset in chunks if any slot ended. Batches of batches, as of several seeds, become one.

    A chunk that is a fair share of its batch grows with it; a smaller one is small because a reset
    is dear, and grows as the best one does, with the root.
    """

    n_slots = args[2].size

    @custom_vmap
    def replace(consts: list[Any], rng: jax.Array, ended: jax.Array, stepped: Any) -> Any:
        def reset_ended() -> Any:
            return _reset_in_chunks(fresh, sizes, consts, rng, ended, stepped)

        return cast(Any, lax.cond(jnp.any(ended), reset_ended, lambda: stepped))

    @replace.def_vmap
    def replace_all(many: int, is_batched: list[Any], consts: list[Any], *slots: Any) -> Any:
        if any(jax.tree.leaves(is_batched[0])):  # what a reset uses differs from batch to batch
            axes = jax.tree.map(lambda batched: 0 if batched else None, is_batched)
            out = jax.vmap(partial(Select(), fresh), axes)(consts, *slots)
        else:
            n, (chunk, _) = many * n_slots, sizes
            is_share = 1 < chunk >= n_slots // 16
            grown = [min(n, size * (many if is_share else isqrt(many))) for size in sizes]

            def merged(x: jax.Array, batched: bool) -> jax.Array:
                x = x if batched else jnp.broadcast_to(x, (many, *x.shape))
                return x.reshape(n, *x.shape[2:])

            slots = jax.tree.map(merged, slots, tuple(is_batched[1:]))
            out = _replace(fresh, (grown[0], grown[1]), consts, *slots)
            out = jax.tree.map(lambda x: x.reshape(many, n // many, *x.shape[1:]), out)
        return out, jax.tree.map(lambda _: True, out)

    return replace(*args)


def _reset_in_chunks(
    fresh: Fresh,
    sizes: tuple[int, int],
    consts: list[Any],
    rng: jax.Array,
    ended: jax.Array,
    stepped: Any,
) -> Any:
    rank = jnp.cumsum(ended, dtype=jnp.int32)

    def chunks(size: int, at_least: int, begun: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
        turn = jnp.arange(1, size + 1, dtype=jnp.int32)

        def pending(carry: tuple[jax.Array, Any]) -> jax.Array:
            return carry[0] + at_least <= rank[-1]

        def reset_chunk(carry: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
            begin, merged = carry
            slots = jnp.searchsorted(rank, begin + turn)  # past the last one: N, dropped below
            new = jax.vmap(fresh, (None, 0))(consts, jnp.take(rng, slots, axis=0, mode="clip"))
            merged = jax.tree.map(lambda m, n: m.at[slots].set(n, mode="drop"), merged, new)
            return begin + size, merged

        return lax.while_loop(pending, reset_chunk, begun)

    (chunk, rest), carry = sizes, (jnp.int32(0), stepped)
    if rest < chunk:
        carry = chunks(chunk, chunk // 2 + 1, carry)
    return chunks(rest, 1, carry)[1]


def in_shard_map() -> bool:
    """Whether the caller is inside a `shard_map`."""
    return bool(jax.sharding.get_abstract_mesh().manual_axes)
