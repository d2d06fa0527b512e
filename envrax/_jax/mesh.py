"""Meshes of devices: sharded arrays, and computations with them over Explicit axes."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.experimental import multihost_utils
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from envrax._jax.keys import clone_keys, is_key

R = TypeVar("R")


def varying_like(like: Any, tree: R) -> R:
    """
    The same values, which vary between devices where any of `like` does.

    `shard_map` tracks which values vary between devices. A constant, such as step 0 of a first
    state, does not, but later steps do, and loops and branches need equal types. A select between
    two equal values changes the type and compiles to nothing. Outside of a `shard_map` nothing is
    done.

    Parameters
    ----------
    like : pytree of jax.Array
        Values that may vary, such as the key of a reset.
    tree : pytree of jax.Array
        Any arrays.
    """
    if not jax.sharding.get_abstract_mesh().manual_axes:  # outside of a `shard_map`
        return tree
    bit = jnp.bool_(False)
    for x in jax.tree.leaves(clone_keys(like)):
        bit = bit | jnp.any(jax.random.key_data(x) if is_key(x) else x)
    # Not by `jnp.where`, which leaves out empty arrays.
    return clone_keys(jax.tree.map(lambda x: jax.lax.select(bit, x, clone_keys(x)), tree))


def is_sharded(tree: Any) -> bool:
    """
    Whether any leaf is sharded over an Explicit mesh axis.

    Sharding over other axes is not part of the type of an array.
    """
    found = False
    for x in jax.tree.leaves(tree):
        found = found or any(jax.typeof(x).sharding.spec)
    return found


def sharding(x: Any) -> NamedSharding:
    """How `x` is sharded over Explicit mesh axes, as its type says."""
    return jax.typeof(x).sharding


def zeros_like(tree: R) -> R:
    """Zeros of the same types and shardings; since JAX 0.11 `jnp.zeros_like` shards nothing."""

    def zeros(x: jax.Array) -> jax.Array:
        zero = jnp.zeros_like(x)
        return jax.sharding.reshard(zero, sharding(x)) if is_sharded(x) else zero

    return jax.tree.map(zeros, tree)


def with_auto_axes(function: Callable[..., R], out: Any, *args: Any) -> R:
    """
    Call `function(*args)` with the sharding of its values left to the compiler.

    Over Explicit axes JAX refuses operations whose sharding it cannot infer, such as a gather.

    Parameters
    ----------
    function : callable
        A function of pytrees of arrays.
    out : pytree of PartitionSpec
        The sharding of its result; a spec may stand for a whole subtree.
    *args : pytree of jax.Array
        Its arguments, with at least one leaf that is sharded over an Explicit axis.
    """
    mesh = next(sharding(x).mesh for x in jax.tree.leaves(args) if is_sharded(x))
    axes = zip(mesh.axis_names, mesh.axis_types, strict=True)
    explicit = tuple(name for name, kind in axes if kind == AxisType.Explicit)
    out = jax.tree.map(lambda spec: NamedSharding(mesh, spec), out)
    return cast(Any, jax.sharding.auto_axes(function, axes=explicit, out_sharding=out)(*args))


def take_slots(tree: Any, which: Any) -> Any:
    """Index the first axis of every leaf; the result is replicated on every device."""

    def take(x: jax.Array) -> jax.Array:
        if not is_sharded(x):
            return x[which]
        return with_auto_axes(lambda x: cast(jax.Array, x[which]), PartitionSpec(), x)

    return jax.tree.map(take, tree)


def where_slots(mask: Any, new: Any, old: Any) -> Any:
    """`new` in the slots of a mask, `old` in the others."""
    pick: Any = jax.vmap(jnp.where)
    return jax.tree.map(partial(pick, mask), new, old)


def to_sharding(tree: Any, layout: NamedSharding, who: str) -> Any:
    """
    Move arrays to the sharding that a compiled program expects.

    Parameters
    ----------
    tree : pytree of array
        The arrays. Tracers are left unchanged.
    layout : jax.sharding.NamedSharding
        The sharding.
    who : str
        The function that the user called, for error messages.

    Raises
    ------
    ValueError
        If the layout divides an array between several processes, but it lies only on this one.
    """

    def is_placed(x: Any) -> bool:
        return isinstance(x, Tracer) or (isinstance(x, jax.Array) and x.sharding == layout)

    def place(x: Any) -> Any:
        if is_placed(x):
            return x
        if layout.is_fully_addressable or not getattr(x, "is_fully_addressable", True):
            return jax.device_put(x, layout)
        if layout.spec != PartitionSpec():
            raise ValueError(
                f"{who}: expected arrays of the slots of all processes; got one of shape "
                f"{np.shape(x)} on this process only. Pass `env.to_global(x)`."
            )
        return to_global(x, layout)

    # In most steps every array is in place: do not rebuild the tree.
    return tree if all(map(is_placed, jax.tree.leaves(tree))) else jax.tree.map(place, tree)


def replicate(tree: Any, mesh: Any, who: str) -> Any:
    """Replicate arrays that lie on one device on every device of a mesh."""
    layout = NamedSharding(mesh, PartitionSpec())

    def one(x: Any) -> Any:
        is_array = isinstance(x, jax.Array) and not isinstance(x, Tracer)
        return cast(Any, to_sharding(x, layout, who) if is_array and len(x.devices()) == 1 else x)

    return jax.tree.map(one, tree)


def to_global(x: Any, layout: NamedSharding) -> jax.Array:
    """A global array over all processes, from the part that this process holds."""
    return _moved(multihost_utils.host_local_array_to_global_array, x, layout)


def to_local(x: Any, layout: NamedSharding) -> jax.Array:
    """The part of a global array that this process holds."""
    return _moved(multihost_utils.global_array_to_host_local_array, x, layout)


def _moved(move: Callable[..., Any], x: Any, layout: NamedSharding) -> jax.Array:
    """`move` of an array, or of the bits of typed keys."""
    if is_key(x):
        bits = _moved(move, jax.random.key_data(x), layout)
        return cast(Any, jax.random.wrap_key_data(bits, impl=jax.random.key_impl(x)))
    return move(x, layout.mesh, layout.spec)


def reshard(tree: Any, layout: NamedSharding) -> Any:
    """The same values in that layout, inside a program as well."""
    mesh = layout.mesh
    kinds = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    named: list[Any] = jax.tree.leaves(tuple(layout.spec))  # an entry may be a tuple of axes
    if AxisType.Auto not in mesh.axis_types or AxisType.Explicit in map(kinds.get, named):
        return jax.sharding.reshard(tree, layout)
    if AxisType.Explicit in mesh.axis_types:  # a constraint leaves these axes as they are
        tree = jax.sharding.reshard(tree, NamedSharding(mesh, PartitionSpec()))
    return jax.lax.with_sharding_constraint(tree, layout)


def over_shards(function: Callable[..., R], given: NamedSharding, out: NamedSharding) -> Any:
    """
    Wrap `function` in `jax.shard_map`: each device calls it with its part of the arrays.

    Arrays of size 0 have no parts: they are made on either side, not mapped. Not every release of
    JAX runs a program that maps them.

    Parameters
    ----------
    function : callable
        A function of pytrees of arrays. Devices communicate only by collectives in it.
    given, out : jax.sharding.NamedSharding
        The sharding of all arguments, and of the results.
    """
    is_explicit = AxisType.Explicit in given.mesh.axis_types
    n_parts = out.mesh.size // out.shard_shape((out.mesh.size,))[0]

    def on_all(*args: Any) -> R:
        leaves, of_args = cast(Any, jax.tree.flatten(args))
        returned: list[Any] = []  # on one device: the leaves and their structure

        def on_one(*mapped: jax.Array) -> list[jax.Array]:
            rest = iter(mapped)
            own = [
                jnp.zeros(given.shard_shape(x.shape), x.dtype) if _is_empty(x) else next(rest)
                for x in leaves
            ]
            returned[:] = jax.tree.flatten(function(*of_args.unflatten(own)))
            return [x for x in returned[0] if not _is_empty(x)]

        mapped: Any = [x for x in leaves if not _is_empty(x)]
        # `check_vma` would refuse loops in environments that were not written for a mesh.
        how: Any = dict(in_specs=given.spec, out_specs=out.spec, check_vma=False)
        over_devices: Any = jax.shard_map(on_one, mesh=given.mesh, **how)
        rest = iter(over_devices(*(reshard(mapped, given) if is_explicit else mapped)))

        def of_all(x: Any) -> Any:
            if not _is_empty(x):
                return next(rest)
            empty = jnp.zeros((x.shape[0] * n_parts, *x.shape[1:]), x.dtype)
            return reshard(empty, out) if is_explicit else empty

        return returned[1].unflatten(map(of_all, returned[0]))

    return on_all


def _is_empty(x: Any) -> bool:
    return not x.size and not is_key(x)


def on_every_device(tree: Any) -> Any:
    """The same values, replicated on every device if sharded over Explicit axes."""

    def whole(x: Any) -> Any:
        return reshard(x, NamedSharding(sharding(x).mesh, PartitionSpec())) if is_sharded(x) else x

    return jax.tree.map(whole, tree)


def while_loop(traceable: bool, goes_on: Callable[[Any], Any], step: Any, carry: Any) -> Any:
    """`jax.lax.while_loop`, or a Python loop for an environment on the host."""
    if traceable:
        return jax.lax.while_loop(goes_on, step, varying_like(carry, carry))
    while goes_on(carry):
        carry = step(carry)
    return carry
