"""`conform`: check values, such as actions, and cast them to the dtype of their space."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.spaces.base import (
    Space,
    canonical,
    describe,
    has_kind,
    is_array,
    is_list,
    is_mapping,
    kind,
    limits,
    list_leaves,
    require_container,
)

_HINT = "Pass actions built like action_space.sample(rng)."


def conform(space: Space, x: Any, who: str, name: str = "actions", hint: str = _HINT) -> Any:
    """
    Cast actions to the dtype of `space`, or raise an error that says what is wrong.

    Structure, shape and kind (bool, integer, float) are checked. Bounds are not, because that would
    read values from a device. Only `space.shape` and `space.dtype` are used.

    An integer that the dtype cannot hold is refused if it is a Python int or in a NumPy array. In a
    JAX array it becomes the nearest integer of the dtype: an int32 300 becomes the uint8 255. Cast
    as JAX does, it would become 44, another legal action.

    Parameters
    ----------
    space : Space
        The space of the actions.
    x : Any
        The actions: arrays, Python scalars or nested lists, in tuples and dicts as in `space`.
    who : str
        The caller, such as `"VecEnv.step"`; error messages begin with it.
    name, hint : str
        The name of `x` in error messages, and the advice at their end.

    Returns
    -------
    Any
        The actions in tuples and dicts. A JAX array of the right dtype is returned unchanged.
        Others are cast on their device. Everything else becomes new NumPy arrays, without
        compilation. No leaf is weakly typed.

    Raises
    ------
    ValueError
        If the structure or a shape is wrong, or an int is too large for the dtype.
    TypeError
        If a leaf is of the wrong kind.
    """
    if fits(space, x):  # the usual case, in every step of a training loop
        return x
    return _conform(space.shape, space.dtype, x, who, name, hint)


def conformed_types(space: Space) -> Any:
    """Shapes and dtypes of what `conform` returns."""

    def leaf(dtype: Any, shape: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, canonical(dtype))

    return jax.tree.map(leaf, space.dtype, space.shape)


def conform_each(
    spaces: dict[int, Space], actions: list[Any], who: str, names: dict[int, str]
) -> None:
    """`conform` some of the actions in a list, in place: those that have a space."""
    for i, space in spaces.items():
        x = actions[i]
        # As in `fits`: this runs in every step of a training loop.
        is_like = isinstance(x, jax.Array) and x.shape == space.shape and x.dtype == space.dtype
        if not is_like or x.aval.weak_type:
            actions[i] = conform(space, x, who, names[i])


def fits(like: Any, x: Any) -> bool:
    """Whether `x` is one JAX array with the shape and dtype of `like`, strongly typed."""
    return (
        isinstance(x, jax.Array)
        and x.shape == like.shape
        and x.dtype == like.dtype
        and not x.aval.weak_type
    )


def _conform(shape: Any, dtype: Any, x: Any, who: str, path: str, hint: str) -> Any:
    if is_mapping(dtype):
        require_container(dtype, x, who, path, hint)
        paths = {k: f"{path}[{k!r}]" for k in sorted(dtype)}
        return {k: _conform(shape[k], dtype[k], x[k], who, at, hint) for k, at in paths.items()}
    if is_list(dtype):
        require_container(dtype, x, who, path, hint)
        parts = zip(shape, dtype, x, strict=True)
        return tuple(_conform(*part, who, f"{path}[{i}]", hint) for i, part in enumerate(parts))
    return _conform_leaf(tuple(shape), canonical(dtype), x, who, path, hint)


def _conform_leaf(
    shape: tuple[int, ...], dtype: np.dtype[Any], x: Any, who: str, path: str, hint: str
) -> jax.Array | np.ndarray[Any, Any]:
    of_type = isinstance(x, jax.Array) or type(x) is np.ndarray
    if of_type and x.shape == shape and x.dtype == dtype and not getattr(x, "weak_type", False):
        return np.array(x) if isinstance(x, np.ndarray) else x  # `copy_numpy`
    found = list(list_leaves(x, shape))
    for index, leaf in found:
        here = path + "".join(f"[{i}]" for i in index)
        _check(shape[len(index) :], dtype, leaf, who, here, hint)
    try:
        if any(isinstance(leaf, jax.Array) for _, leaf in found):
            return _on_device(x, dtype)
        return _on_host(x, dtype).reshape(shape)
    except OverflowError as error:
        raise ValueError(
            f"{who}: expected {path} of shape {shape}, {dtype}; got an int that {dtype} cannot "
            f"hold. {hint}"
        ) from error


def _on_host(x: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """`x` as a NumPy array. Raise an OverflowError if `dtype` cannot hold an integer of it."""
    with np.errstate(all="ignore"):
        result = np.array(x, dtype)  # the caller may write to `x`
        if kind(dtype) == "integer" and (result != np.asarray(x)).any():
            raise OverflowError  # a wider NumPy integer, which would wrap around
        return result


def _on_device(x: Any, dtype: np.dtype[Any]) -> jax.Array:
    """`x`, a JAX array or a list with some in it, as a JAX array."""
    if is_list(x) and x:
        return jnp.stack([_on_device(item, dtype) for item in x])
    if not isinstance(x, jax.Array):
        return jnp.asarray(_on_host(x, dtype))
    if kind(dtype) == "integer":
        least, most = limits(dtype)
        x_least, x_most = limits(x.dtype)
        if x_least < least or x_most > most:
            return _cast_to_nearest(x, max(least, x_least), min(most, x_most), dtype)
    return jnp.asarray(x, dtype)


def _clip_and_cast(x: jax.Array, least: int, most: int, dtype: np.dtype[Any]) -> jax.Array:
    return jnp.clip(x, x.dtype.type(least), x.dtype.type(most)).astype(dtype)


# Compiled, so that it costs a single dispatch, like a cast.
_cast_to_nearest: Any = jax.jit(_clip_and_cast, static_argnums=(1, 2, 3))


def _check(
    shape: tuple[int, ...], dtype: np.dtype[Any], x: Any, who: str, path: str, hint: str
) -> None:
    """Raise an error if the leaf `x` has the wrong shape or kind."""
    numeric = is_array(x) or isinstance(x, bool | int | float)
    has_shape = not is_list(x) and (not numeric or getattr(x, "shape", ()) == shape)
    if has_shape and has_kind(dtype, x):
        return
    wrong = f"{who}: expected {path} of shape {shape}, {dtype}; got {describe(x)}."
    if not has_shape:
        raise ValueError(f"{wrong} {hint}")
    cast = f"Cast it, as in `x.astype('{dtype}')`."
    raise TypeError(f"{wrong} {cast if numeric else hint}")
