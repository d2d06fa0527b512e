"""PRNG keys of both kinds: typed (`jax.random.key`) and legacy (`jax.random.PRNGKey`)."""

from functools import cache
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

T = TypeVar("T")

_CONFIG: Any = jax.config  # its options are not declared


def require_key(rng: Any, who: str, hint: str) -> None:
    """
    Refuse anything but one PRNG key.

    Parameters
    ----------
    rng : Any
        What the caller passed.
    who : str
        The function that got it, for the message.
    hint : str
        What to do with a batch of keys.

    Raises
    ------
    TypeError
        If `rng` is not a PRNG key, for example a Python int.
    ValueError
        If `rng` is a batch of keys, or a legacy key of another shape than the configured
        implementation has.
    """
    shape, dtype = getattr(rng, "shape", None), getattr(rng, "dtype", None)
    typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if shape is None or not (typed or dtype == np.uint32):
        got = f"{shape} {dtype}" if shape is not None else repr(rng)
        raise TypeError(
            f"{who}: expected a PRNG key; got {got}. Make one with `jax.random.key(seed)`."
        )
    one = () if typed else _legacy_shape(_CONFIG.jax_default_prng_impl)
    if shape != one:
        batch = len(shape) > len(one) and shape[len(shape) - len(one) :] == one
        raise ValueError(
            f"{who}: expected one PRNG key of shape {one}; got shape {shape}. "
            + (hint if batch else "Make one with `jax.random.key(seed)`.")
        )


def key_types() -> list[jax.ShapeDtypeStruct]:
    """Shape and dtype of a typed key, and of a legacy one where the user's settings allow it."""
    bits = jax.ShapeDtypeStruct(_legacy_shape(_CONFIG.jax_default_prng_impl), np.uint32)
    typed = jax.eval_shape(lambda x: jax.random.wrap_key_data(x), bits)
    allowed = _CONFIG.jax_legacy_prng_key.value == "allow"
    return [typed, bits] if allowed and not _CONFIG.jax_enable_custom_prng else [typed]


def clone_keys(tree: T) -> T:
    """
    The same pytree, with typed keys that `jax.debug_key_reuse` counts as unused.

    JAX's checker marks a key as used after any operation that it does not know, such as a select.
    Without the checker nothing is cloned: JAX cannot differentiate through a clone.
    """
    if not _CONFIG.jax_debug_key_reuse:
        return tree

    def clone(x: Any) -> Any:
        is_key = jnp.issubdtype(getattr(x, "dtype", bool), jax.dtypes.prng_key)
        return cast(Any, jax.random.clone(x)) if is_key else x

    return cast(T, jax.tree.map(clone, tree))


@cache
def _legacy_shape(impl: str) -> tuple[int, ...]:
    return jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0, impl=impl))).shape
