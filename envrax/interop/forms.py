"""The common types of a library's results at reset and at a step, and casts to them."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from envrax._jax.dead_code import arguments_read
from envrax._jax.keys import is_key
from envrax._jax.types import strip_weak_type
from envrax.interop.records import Advanced, Begun
from envrax.spaces.base import canonical


class Form(NamedTuple):
    """The types that reset and step share, and whether a step draws from its key."""

    obs: Any
    inner: Any
    mask: Any
    info: Any
    draws: bool


def common_form(who: str, name: str, first: Any, second: Any) -> Any:
    """
    The types that hold the leaves of both trees.

    Parameters
    ----------
    who, name : str
        The environment, and the name of the trees, for the message.
    first, second : pytree
        Arrays, or their shapes and dtypes: at reset, and after a step.

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
                "The library breaks its own contract here; wrap its environment and mend it."
            )
        with jax.numpy_dtype_promotion("standard"):
            dtype = a.dtype if a.dtype == b.dtype else jnp.promote_types(a.dtype, b.dtype)
        return jax.ShapeDtypeStruct(a.shape, dtype)

    first = types_of(first)
    second = types_of(second)
    if jax.tree.structure(first) != jax.tree.structure(second):
        raise TypeError(
            f"{who}: expected `{name}` of one structure; got {jax.tree.structure(first)} at reset "
            f"and {jax.tree.structure(second)} after a step. The library breaks its own contract "
            "here; wrap its environment and mend it."
        )
    return jax.tree_util.tree_map_with_path(promote, first, second)


def types_of(tree: Any) -> Any:
    """Shape and dtype of every leaf, Python numbers included, without weak types."""

    def type_of(x: Any) -> jax.ShapeDtypeStruct:
        x = x if hasattr(x, "dtype") else jax.eval_shape(lambda: jnp.asarray(x))
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    return jax.tree.map(type_of, tree)


def cast_to(form: Any, tree: Any) -> Any:
    """The tree as strongly typed arrays of the form's dtypes, in the form's containers."""

    def cast_leaf(leaf: Any, type_: jax.ShapeDtypeStruct) -> jax.Array:
        x = jnp.asarray(leaf)
        return x if is_key(x) else strip_weak_type(x.astype(type_.dtype))

    leaves = jax.tree.leaves(tree)
    wanted, structure = cast(Any, jax.tree.flatten(form))
    return jax.tree.unflatten(structure, list(map(cast_leaf, leaves, wanted)))


def as_dicts(tree: Any) -> Any:
    """NamedTuples, and dataclasses that are pytrees, as dicts of their fields, at every depth."""
    if isinstance(tree, dict):
        return {str(k): as_dicts(v) for k, v in cast(dict[Any, Any], tree).items()}
    if hasattr(tree, "_fields"):
        return {name: as_dicts(getattr(tree, name)) for name in tree._fields}
    if hasattr(tree, "__dataclass_fields__") and not jax.tree_util.all_leaves([tree]):
        return {name: as_dicts(getattr(tree, name)) for name in tree.__dataclass_fields__}
    if isinstance(tree, tuple | list):
        return tuple(as_dicts(x) for x in cast(Any, tree))
    return tree


def find_form(who: str, begun: Begun, advance: Callable[[Any], Any]) -> Form:
    """
    The form of an environment: the types of a reset, widened until a step changes none.

    Parameters
    ----------
    who : str
        The environment, for the message.
    begun : Begun
        Types of the results of a reset.
    advance : callable
        From the types of the library's state to a traced step, whose last argument is the key.

    Raises
    ------
    TypeError
        If reset and step differ in structure or shape.
    """
    obs, inner, mask = types_of((begun.obs, begun.inner, begun.mask))
    while True:
        traced = advance(inner)
        out = Advanced(*traced.out_info)
        after = (out.obs, out.inner, out.mask)
        names = ("obs", "state.inner", "state.mask")
        pairs = zip(names, (obs, inner, mask), after, strict=True)
        found = tuple(common_form(who, name, a, b) for name, a, b in pairs)
        if _leaves(found) == _leaves((obs, inner, mask)):
            return Form(obs, inner, mask, types_of(out.info), arguments_read(traced.jaxpr)[-1])
        obs, inner, mask = found


def without_x64() -> str:
    """Advice for an error of a library, where `jax_enable_x64` is set."""
    return " (Without `jax_enable_x64` it may work.)" if canonical(float).itemsize > 4 else ""


def _leaves(types: Any) -> list[Any]:
    """The leaves, to compare: a class of the library may redefine `==`."""
    return jax.tree.leaves(types)
