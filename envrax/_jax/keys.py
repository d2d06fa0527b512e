"""PRNG keys of both kinds: typed (`jax.random.key`) and legacy (`jax.random.PRNGKey`)."""

from collections.abc import Callable
from functools import cache, partial, wraps
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

T = TypeVar("T")
MethodT = TypeVar("MethodT", bound=Callable[..., Any])

_CONFIG: Any = jax.config  # its options are not declared


def refuses_seed(reset: MethodT) -> MethodT:
    """A method `reset(rng)` that tells who calls it as Gymnasium's, without a key, how to do so."""

    @wraps(reset)
    def checked(self: Any, *rng: Any, **keywords: Any) -> Any:
        if "seed" in keywords or not (rng or keywords):
            seed = keywords.get("seed")
            got = f"seed={seed!r}" if keywords else "nothing"
            raise TypeError(
                f"{type(self).__name__}.reset: expected a PRNG key; got {got}. Write "
                f"`reset(jax.random.key({seed or 0}))`."
            )
        return reset(self, *rng, **keywords)

    return cast(Any, checked)


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
    shape = getattr(rng, "shape", None)
    dtype = getattr(rng, "dtype", None)
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


def require_keys(rng: Any, who: str, hint: str) -> int | None:
    """
    Refuse anything but one PRNG key, or a batch of keys along one axis.

    Parameters
    ----------
    rng, who, hint
        As for `require_key`.

    Returns
    -------
    int or None
        The number of keys in the batch; None for one key.
    """
    if getattr(rng, "ndim", 0) != (1 if is_key(rng) else 2):
        require_key(rng, who, hint)
        return None
    require_key(jax.ShapeDtypeStruct(rng.shape[1:], rng.dtype), who, hint)
    return rng.shape[0]


def key_types() -> list[jax.ShapeDtypeStruct]:
    """Shape and dtype of a typed key, and of a legacy one where the user's settings allow it."""
    bits = jax.ShapeDtypeStruct(_legacy_shape(_CONFIG.jax_default_prng_impl), np.uint32)
    typed = jax.eval_shape(lambda x: jax.random.wrap_key_data(x), bits)
    allowed = _CONFIG.jax_legacy_prng_key.value == "allow"
    return [typed, bits] if allowed and not _CONFIG.jax_enable_custom_prng else [typed]


def split_key(rng: jax.Array, n: int) -> jax.Array:
    """One threefry key for each slot of a batch, each member of a fleet or each episode."""
    return jax.random.split(to_threefry(rng), n)


def key_for_each(rng: jax.Array, n: int) -> jax.Array:
    """A threefry key for each of n: one key is split, and a batch of n keys is that already."""
    is_batch = jnp.ndim(rng) == (1 if is_key(rng) else 2)
    return to_threefry(rng) if is_batch else split_key(rng, n)


def to_threefry(rng: jax.Array) -> jax.Array:
    """
    Convert rbg and unsafe_rbg keys, one or a batch, to the threefry keys of the same seeds.

    Under `vmap`, a draw from rbg keys uses the first slot's key for all slots. Other keys are
    unchanged.
    """
    typed = is_key(rng)
    impl = jax.random.key_impl(rng) if typed else _CONFIG.jax_default_prng_impl
    if impl not in ("rbg", "unsafe_rbg"):
        return rng
    bits = jax.random.key_data(rng) if typed else rng
    # The first half of an rbg key is a threefry key.
    return cast(jax.Array, jax.random.wrap_key_data(bits[..., :2], impl="threefry2x32"))


def of_kind(rng: jax.Array, like: jax.Array) -> jax.Array:
    """The same key, or batch of keys, typed or legacy as another."""
    if is_key(rng) == is_key(like):
        return rng
    if is_key(rng):
        return jax.random.key_data(rng)
    return cast(jax.Array, jax.random.wrap_key_data(rng, impl=jax.random.key_impl(like)))


def clone_keys(tree: T) -> T:
    """
    Clone the typed keys of a pytree, so that `jax.debug_key_reuse` counts them as unused.

    JAX's checker marks a key as used after any operation that it does not know, such as a select.
    Without the checker nothing is cloned: JAX cannot differentiate through a clone.
    """
    if not _CONFIG.jax_debug_key_reuse:
        return tree

    return cast(T, jax.tree.map(lambda x: jax.random.clone(x) if is_key(x) else x, tree))


def cond(which: Any, if_true: Callable[[T], T], if_false: Callable[[T], T], x: T) -> T:
    """`jax.lax.cond` of functions from a pytree to one like it, which may hold keys."""
    if not _CONFIG.jax_debug_key_reuse:
        return cast(T, jax.lax.cond(which, if_true, if_false, x))
    # Compute both and select: under `vmap`, JAX makes a `cond` several selects of each operand,
    # which its checker reports as a key that is used twice.
    a = clone_keys(if_true(clone_keys(x)))
    b = clone_keys(if_false(clone_keys(x)))
    return clone_keys(jax.tree.map(partial(jnp.where, which), a, b))


def is_key(x: Any) -> bool:
    """Whether `x` is an array of typed keys."""
    return jnp.issubdtype(getattr(x, "dtype", bool), jax.dtypes.prng_key)


@cache
def _legacy_shape(impl: str) -> tuple[int, ...]:
    return jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0, impl=impl))).shape
