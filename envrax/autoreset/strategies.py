"""Strategies of auto-reset, `Select` and `Compact`, and the choice between them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isqrt
from typing import Any, Protocol, cast

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap

from envrax._checks.counts import require_count
from envrax._jax.jaxprs import equations
from envrax._jax.keys import clone_keys, key_types
from envrax._jax.mesh import is_sharded, varying_like
from envrax.autoreset.slot import next_episode, reset_slot
from envrax.env import AnyEnv

# `(constants, inputs from one slot's last state) -> leaves of the slot's next episode`.
ResetOne = Callable[[list[Any], Any], Any]


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
            The leaves that `reset_one` reads of the state after the step, leading axis N: the PRNG
            keys, and more where `JaxEnv.reset_after` is overridden.
        ended : jax.Array
            bool[N].
        stepped : pytree
            Obs and state after the step, leading axis N, structured as `reset_one` returns them.
            Leaves that a reset does not change are left out.

        Returns
        -------
        pytree
            `stepped`, with the results of `reset_one` in the slots that ended.
        """
        ...


def select(
    reset_one: ResetOne, consts: list[Any], last: Any, ended: jax.Array, stepped: Any
) -> Any:
    """The next episode of one slot where it ended, else what was stepped."""
    return jax.tree.map(partial(jnp.where, ended), reset_one(consts, last), stepped)


@dataclass(frozen=True)
class Select:
    """
    Reset every slot on every step, and keep the result where the episode ended.

    Fastest where a reset is cheap and many slots run in parallel, as on a GPU.
    """

    def __call__(
        self, reset_one: ResetOne, consts: list[Any], last: Any, ended: jax.Array, stepped: Any
    ) -> Any:
        return jax.vmap(partial(select, reset_one, consts))(last, ended, stepped)


@dataclass(frozen=True)
class Compact:
    """
    Reset only the slots that ended, in chunks: gather their inputs, reset, scatter the results.

    Equal to `Select` bit for bit, except that XLA may round floats inside a reset differently, in
    the last bit, at another batch width: a reduction, a matrix product, and with some versions a
    multiply-add or an `exp`, of which `jax.random.normal` is made.

    Inside a `shard_map` every device resets its own slots.

    Attributes
    ----------
    chunk : int, optional
        How many slots are reset at a time. By default a sixteenth of the batch.
    """

    chunk: int | None = None

    def __post_init__(self) -> None:
        if self.chunk is not None:
            require_count("Compact: expected chunk", self.chunk)

    def __call__(
        self, reset_one: ResetOne, consts: list[Any], last: Any, ended: jax.Array, stepped: Any
    ) -> Any:
        n_slots = ended.size
        stepped = varying_like((consts, last, ended), stepped)
        chunk = min(self.chunk or max(1, n_slots // 16), n_slots)

        @custom_vmap
        def merge(consts: list[Any], last: Any, ended: jax.Array, stepped: Any) -> Any:
            def reset_some() -> Any:
                return _reset_in_chunks(partial(reset_one, consts), chunk, last, ended, stepped)

            return cast(Any, lax.cond(jnp.any(ended), reset_some, lambda: stepped))

        @merge.def_vmap
        def merge_all(n_batches: int, is_mapped: list[Any], consts: list[Any], *slots: Any) -> Any:
            # All batches become one, unless the constants differ between them, there are
            # none, or they lie along an Explicit mesh axis, where JAX refuses the gather.
            is_own = any(jax.tree.leaves(is_mapped[0]))
            if is_own or n_batches == 0 or is_sharded((consts, slots)):
                axes = jax.tree.map(lambda mapped: 0 if mapped else None, tuple(is_mapped))
                out = jax.vmap(partial(Select(), reset_one), axes)(consts, *slots)
            else:
                flat = jax.tree.map(partial(_flattened, n_batches), slots, tuple(is_mapped[1:]))
                # A chunk that is a share of its batch remains that share. A smaller one grows with
                # the square root of the number of batches: few iterations, few wasted resets.
                is_share = 1 < chunk >= n_slots // 16
                wide = Compact(chunk * (n_batches if is_share else isqrt(n_batches)))
                out = wide(reset_one, consts, *flat)
                out = jax.tree.map(lambda x: x.reshape(n_batches, n_slots, *x.shape[1:]), out)
            return out, jax.tree.map(lambda _: True, out)

        return merge(consts, last, ended, stepped)


def choose(env: AnyEnv, num_envs: int, backend: str | None = None) -> AutoReset:
    """
    The strategy that `VecEnv` uses if none is given.

    A reset with a loop in it, or a call to the host, counts as expensive.

    | | CPU | GPU, TPU |
    |---|---|---|
    | cheap | `Compact`: 1/16 of the slots at a time | `Select` |
    | expensive | `Compact`: 1/128 of the slots at a time | `Compact`: 1/16 of them at a time |

    Nothing is timed: the same environment, batch size and backend give the same choice. Results do
    not depend on it, up to the rounding that `Compact` describes.

    Parameters
    ----------
    env : JaxEnv
        The environment.
    num_envs : int
        Number of slots.
    backend : str, optional
        "cpu", "gpu" or "tpu"; JAX's default if not given.

    Returns
    -------
    AutoReset
        `Compact` or `Select`.

    Raises
    ------
    ValueError
        If `num_envs` is below 1.
    """
    num_envs = require_count("choose: expected num_envs", num_envs)
    _, state = jax.eval_shape(partial(reset_slot, env), key_types()[0])
    program = jax.make_jaxpr(partial(next_episode, env))(state).jaxpr
    return strategy_for(None, program, num_envs, backend)


def strategy_for(
    given: AutoReset | None, reset: Any, num_envs: int, backend: str | None = None
) -> AutoReset:
    """The given strategy, or the one that `choose` documents, for the jaxpr of a reset."""
    if given is not None:
        return given
    is_expensive = _has_loop(reset)
    if (backend or jax.default_backend()) != "cpu":
        # A reset takes a GPU as long for one slot as for many: it is worth the loop of `Compact`
        # only where a step without it saves much.
        return Compact() if is_expensive else Select()
    return Compact(max(1, num_envs // 128)) if is_expensive else Compact()


def _has_loop(program: Any) -> bool:
    """Whether a program has a loop or a call to the host in it, at any depth."""
    names = (eqn.primitive.name for eqn in equations(program))
    return any(name in ("while", "scan") or name.endswith("callback") for name in names)


def _flattened(n_batches: int, x: jax.Array, is_mapped: bool) -> jax.Array:
    """The slots of all batches along one axis."""
    x = x if is_mapped else jnp.broadcast_to(x, (n_batches, *x.shape))
    return x.reshape(n_batches * x.shape[1], *x.shape[2:])


def _reset_in_chunks(
    reset: Callable[[Any], Any], chunk: int, last: Any, ended: jax.Array, stepped: Any
) -> Any:
    # How many slots ended up to each one, itself included.
    count = jnp.cumsum(ended, dtype=jnp.int32)
    places = jnp.arange(1, chunk + 1, dtype=jnp.int32)

    def reset_chunk(carry: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
        n_done, merged = carry
        slots = _first_at_least(count, n_done + places)  # N beyond the last that ended
        take = partial(jnp.take, indices=slots, axis=0, mode="clip")
        new = jax.vmap(reset, axis_size=chunk)(jax.tree.map(take, clone_keys(last)))
        merged = jax.tree.map(lambda m, n: m.at[slots].set(n, mode="drop"), merged, new)
        return n_done + chunk, merged

    begin = jnp.int32(0), stepped
    return lax.while_loop(lambda carry: carry[0] < count[-1], reset_chunk, begin)[1]


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
