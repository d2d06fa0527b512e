"""The types that a library's reset and step have in common, and casts to them."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from envrax._jax.dead_code import arguments_read
from envrax._jax.keys import is_key
from envrax._jax.returned import strip_weak_type
from envrax.interop.peer.types import PeerReset, PeerStep


class CommonTypes(NamedTuple):
    """
    The types of the results of reset and step.

    Attributes
    ----------
    obs, inner, mask : pytree of jax.ShapeDtypeStruct
        The types at reset and after a step, which are equal.
    info : dict
        The types of the infos of a step.
    uses_key : bool
        Whether a step draws from its key.
    """

    obs: Any
    inner: Any
    mask: Any
    info: Any
    uses_key: bool


def find_common_types(who: str, reset: PeerReset, trace_step: Callable[[Any], Any]) -> CommonTypes:
    """
    The types of a reset, widened until a step returns the types that it takes.

    Parameters
    ----------
    who : str
        The environment, for the message.
    reset : PeerReset
        The types of the results of a reset.
    trace_step : callable
        Traces a step, from the types of the library's state. The key is its last argument.

    Raises
    ------
    TypeError
        If reset and step differ in structure or shape.
    """
    names = ("obs", "state.inner", "state.mask")
    before = types_of((reset.obs, reset.inner, reset.mask))
    while True:
        traced = trace_step(before[1])
        step = PeerStep(*traced.out_info)
        after = (step.obs, step.inner, step.mask)
        pairs = zip(names, before, after, strict=True)
        common = tuple(promote_types(who, name, a, b) for name, a, b in pairs)
        # Leaves are compared, since a class of the library may redefine `==`.
        if jax.tree.leaves(common) == jax.tree.leaves(before):
            uses_key = arguments_read(traced.jaxpr)[-1]
            return CommonTypes(*common, info=types_of(step.info), uses_key=uses_key)
        before = common


def promote_types(who: str, name: str, at_reset: Any, after_step: Any) -> Any:
    """
    The types that can hold the leaves of both trees.

    Parameters
    ----------
    who, name : str
        The environment, and the name of the trees, for the message.
    at_reset, after_step : pytree
        Arrays, or their shapes and dtypes.

    Raises
    ------
    TypeError
        If the trees differ in structure, or a leaf in shape.
    """

    def promote(path: Any, a: Any, b: Any) -> jax.ShapeDtypeStruct:
        if a.shape != b.shape or is_key(a) != is_key(b):
            where = jax.tree_util.keystr(path, simple=True, separator=".")
            got = f"{a.dtype}{list(a.shape)} at reset and {b.dtype}{list(b.shape)} after a step"
            raise TypeError(
                f"{who}: expected `{name}{'.' * bool(where)}{where}` to keep its shape; got {got}. "
                "The library breaks its own contract here; wrap its environment and correct it."
            )
        with jax.numpy_dtype_promotion("standard"):
            dtype = a.dtype if a.dtype == b.dtype else jnp.promote_types(a.dtype, b.dtype)
        return jax.ShapeDtypeStruct(a.shape, dtype)

    first = types_of(at_reset)
    second = types_of(after_step)
    if jax.tree.structure(first) != jax.tree.structure(second):
        raise TypeError(
            f"{who}: expected `{name}` of one structure; got {jax.tree.structure(first)} at reset "
            f"and {jax.tree.structure(second)} after a step. The library breaks its own contract "
            "here; wrap its environment and correct it."
        )
    return jax.tree_util.tree_map_with_path(promote, first, second)


def types_of(tree: Any) -> Any:
    """Shape and dtype of every leaf, Python numbers included, without weak types."""

    def type_of(x: Any) -> jax.ShapeDtypeStruct:
        x = x if hasattr(x, "dtype") else jax.eval_shape(lambda: jnp.asarray(x))
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    return jax.tree.map(type_of, tree)


def cast_to(types: Any, tree: Any) -> Any:
    """The tree as strongly typed arrays, with the dtypes and the containers of `types`."""

    def cast_leaf(leaf: Any, type_: jax.ShapeDtypeStruct) -> jax.Array:
        x = jnp.asarray(leaf)
        return x if is_key(x) else strip_weak_type(x.astype(type_.dtype))

    leaves = jax.tree.leaves(tree)
    wanted, structure = cast(Any, jax.tree.flatten(types))
    return jax.tree.unflatten(structure, list(map(cast_leaf, leaves, wanted)))
