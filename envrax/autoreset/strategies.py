"""How slots begin episodes: `Select` and `Compact`, the choice between them, and their `vmap`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isqrt
from typing import Any, Protocol, cast

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from envrax._checks.counts import require_count
from envrax._jax.jaxprs import has_loop, has_refs
from envrax._jax.keys import clone_keys, key_types
from envrax._jax.mesh import is_sharded, varying_like
from envrax._jax.threefry import written_out_on_cpu
from envrax.autoreset.slot import checked_reset, next_episode, require_same_types
from envrax.env import AnyEnv, EnvState

# `(constants, leaves of one slot's last state) -> leaves of the slot's next episode`.
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
            The leaves of the state after the step, leading axis N.
        ended : jax.Array
            bool[N].
        stepped : pytree
            Leaves of obs and state after the step, leading axis N, as `reset_one` returns them.

        Returns
        -------
        pytree
            `stepped`, with the results of `reset_one` in the slots that ended.
        """
        ...


def select(
    reset_one: ResetOne, consts: list[Any], last: Any, ended: jax.Array, stepped: Any
) -> Any:
    """The start of the next episode if this one ended, else the result of the step."""
    # Not by `jnp.where`, which leaves out empty arrays: their types would differ from those of
    # `Compact` in a `shard_map`.
    return jax.tree.map(partial(lax.select, ended), reset_one(consts, last), stepped)


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

    The result is that of `Select`, bit for bit, except that XLA may round floats in a reset
    differently, in the last bit, at another batch width: in a reduction or a matrix product, and in
    some versions in a multiply-add, a `log`, a `tanh` or a draw of floats.

    Inside a `shard_map` every device resets its own slots. On a CPU, JAX's random numbers are drawn
    without the loop that JAX has for them: the same bits, in less time.

    Attributes
    ----------
    chunk : int, optional
        How many slots are reset at a time. By default a sixteenth of the batch.
    cond : bool, default True
        Look first whether any slot ended. It is faster on a CPU; on a GPU it is one more wait.
    """

    chunk: int | None = None
    cond: bool = True

    def __post_init__(self) -> None:
        if self.chunk is not None:
            require_count("Compact: expected chunk", self.chunk)

    def __call__(
        self, reset_one: ResetOne, consts: list[Any], last: Any, ended: jax.Array, stepped: Any
    ) -> Any:
        n_slots = ended.size
        chunk = min(self.chunk or max(1, n_slots // 16), n_slots)

        def reset_some(consts: list[Any], last: Any, ended: jax.Array, stepped: Any) -> Any:
            def in_chunks() -> Any:
                return _reset_in_chunks(partial(reset_one, consts), chunk, last, ended, stepped)

            if not self.cond:
                return in_chunks()
            return cast(Any, lax.cond(jnp.any(ended), in_chunks, lambda: stepped))

        def of_batches(n_batches: int, consts: list[Any], *batches: Any) -> Any:
            """All batches as one."""
            leaves, structure = cast(Any, jax.tree.flatten(batches))
            flat = [x.reshape(n_batches * n_slots, *x.shape[2:]) for x in leaves]
            # A chunk that is a share of its batch remains that share. A smaller one grows with the
            # square root of the number of batches: few iterations, few wasted resets.
            is_share = 1 < chunk >= n_slots // 16
            wide = Compact(chunk * (n_batches if is_share else isqrt(n_batches)), self.cond)
            out: Any = wide(reset_one, consts, *jax.tree.unflatten(structure, flat))
            return jax.tree.map(lambda x: x.reshape(n_batches, n_slots, *x.shape[1:]), out)

        under_vmap = with_vmap_rule(reset_some, of_batches, partial(Select(), reset_one))
        return under_vmap(consts, last, ended, stepped)


def choose(env: AnyEnv, num_envs: int, backend: str | None = None) -> AutoReset:
    """
    The strategy that `VecEnv` uses if none is given.

    A reset with a loop in it, or a call to the host, counts as expensive.

    | | CPU | GPU, TPU |
    |---|---|---|
    | cheap | `Compact`, 1/16 of the slots at a time | `Select` |
    | expensive | `Compact`, 1/128 of the slots at a time | `Compact`, 1/16 at a time, no `cond` |

    Nothing is timed: the same environment, batch size and backend give the same choice. Results do
    not depend on it, up to the rounding that `Compact` describes. A program takes the choice of the
    platform that it is lowered for.

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
    _, state = jax.eval_shape(partial(checked_reset, env), key_types()[0])
    program = jax.make_jaxpr(partial(next_episode, env))(state)
    on_cpu, elsewhere = strategies_for(has_loop(program), num_envs)
    return on_cpu if (backend or jax.default_backend()) == "cpu" else elsewhere


def strategies_for(is_expensive: bool, num_envs: int) -> tuple[AutoReset, AutoReset]:
    """The strategies that `choose` documents for a reset: on a CPU, and elsewhere."""
    if is_expensive:
        return Compact(max(1, num_envs // 128)), Compact(cond=False)
    # On a GPU, resetting one slot takes as long as resetting many: the loop of `Compact` pays off
    # only if skipping an expensive reset, in steps that end no episode, saves much.
    return Compact(), Select()


def _reset_in_chunks(
    reset: Callable[[Any], Any], chunk: int, last: Any, ended: jax.Array, stepped: Any
) -> Any:
    n_slots = ended.size

    def reset_chunk(carry: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
        left, results = carry
        # Each slot that is left has a place in the chunk, or one beyond it: then it waits.
        place = jnp.where(left, jnp.cumsum(left, dtype=jnp.int32) - 1, chunk)
        slots = jnp.full(chunk, n_slots, jnp.int32)
        slots = slots.at[place].set(jnp.arange(n_slots, dtype=jnp.int32), mode="drop")
        take = partial(jnp.take, indices=slots, axis=0, mode="clip")
        inputs = jax.tree.map(take, clone_keys(last))
        new = written_out_on_cpu(jax.vmap(reset, axis_size=chunk))(inputs)
        results = jax.tree.map(lambda old, x: old.at[slots].set(x, mode="drop"), results, new)
        return left & (place >= chunk), results

    return lax.while_loop(lambda carry: jnp.any(carry[0]), reset_chunk, (ended, stepped))[1]


def with_vmap_rule(
    one: Callable[..., Any], all_at_once: Callable[..., Any], select: Callable[..., Any]
) -> Callable[..., Any]:
    """
    A function `one(consts, last, ended, stepped)`, with a rule of its own for `vmap`.

    Parameters
    ----------
    one : callable
        The function without `vmap`.
    all_at_once : callable
        `(n, consts, last, ended, stepped)`: the results of n calls at once, with a leading axis n
        on all arguments but the constants.
    select : callable
        The same as `one` by a select. `vmap` maps it where `all_at_once` cannot be used: the
        constants differ between the n, n is 0, or the values are sharded over an Explicit mesh
        axis, along which JAX refuses to gather.
    """
    mapped = custom_vmap(one)

    @mapped.def_vmap
    def rule(n: int, is_mapped: list[Any], consts: Any, *slots: Any) -> Any:
        if any(jax.tree.leaves(is_mapped[0])) or n == 0 or is_sharded((consts, slots)):
            # `get` gives 0 for True, and None for False.
            axes = jax.tree.map({True: 0}.get, tuple(is_mapped))
            out: Any = jax.vmap(select, axes, axis_size=n)(consts, *slots)
        else:
            leaves, structure = cast(Any, jax.tree.flatten(slots))
            flags: list[bool] = jax.tree.leaves(tuple(is_mapped[1:]))
            pairs = zip(leaves, flags, strict=True)
            rows = [x if flag else jnp.broadcast_to(x, (n, *x.shape)) for x, flag in pairs]
            out = all_at_once(n, consts, *jax.tree.unflatten(structure, rows))
        all_mapped = [True] * len(jax.tree.leaves(out))
        return out, jax.tree.unflatten(jax.tree.structure(out), all_mapped)

    return mapped


def begin_if(
    env: AnyEnv,
    autoreset: AutoReset | None,
    begin: Callable[[AnyEnv, Any], Any],
    source: Any,
    begins: jax.Array,
    obs: Any,
    state: EnvState,
) -> tuple[Any, EnvState]:
    """`begin(env, source)`, the start of an episode, if `begins` is True, else obs and state."""
    traced, types = jax.make_jaxpr(partial(begin, env), return_shape=True)(source)
    program = traced.jaxpr
    is_expensive = has_loop(program)
    uses_refs = has_refs(program)
    at_start = {"obs": types[0], "state": types[1]}
    if obs is None:
        obs = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), types[0])
    # The states of a stack hold the same key, which JAX's checker would report.
    source, obs, state = clone_keys((source, obs, state))
    require_same_types(env, at_start, {"obs": obs, "state": state}, after_end=True)
    stepped, structure = cast(Any, jax.tree.flatten((obs, state)))

    # The constants of the trace are arguments: they may be traced values of the caller, which no
    # function below may keep.
    def reset_one(consts: list[Any], source: list[Any]) -> list[Any]:
        return cast(Any, jaxpr_as_fun(ClosedJaxpr(program, consts)))(*source)

    def reset_if(consts: list[Any], source: Any, begins: jax.Array, stepped: Any) -> Any:
        new = lambda: varying_like(begins, reset_one(consts, source))  # noqa: E731
        return cast(Any, lax.cond(begins, new, lambda: stepped))

    def reset_slots_if(n_slots: int, *slots: Any) -> Any:
        if autoreset is not None:
            return autoreset(reset_one, *slots)
        on_cpu, elsewhere = strategies_for(is_expensive, n_slots)
        ways: Any = dict(cpu=partial(on_cpu, reset_one), default=partial(elsewhere, reset_one))
        return cast(Any, lax.platform_dependent(*slots, **ways))

    by_select = partial(select, reset_one)
    differentiable: Any = by_select
    if not uses_refs:  # JAX cannot lower them in a function with a rule of its own
        # It has no reverse mode for a loop of unknown length: the derivative is that of a select.
        differentiable = jax.custom_jvp(with_vmap_rule(reset_if, reset_slots_if, by_select))
        differentiable.defjvp(partial(jax.jvp, by_select))
    # Loops and branches need equal types, in a `shard_map` too.
    like = traced.consts, jax.tree.leaves(source), begins, stepped
    begins, stepped = varying_like(like, (begins, stepped))
    return jax.tree.unflatten(structure, clone_keys(differentiable(*like[:2], begins, stepped)))
