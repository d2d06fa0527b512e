"""`Space`, and the checks of dtypes and nested lists that `contains` and `conform` share."""

import dataclasses
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeGuard, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from envrax._checks.counts import require_count
from envrax._jax.keys import require_key


class Space(ABC):
    """
    The set that the observations or the actions of an environment come from.

    The spaces of envrax are immutable: they are hashable, compared by value, legal as static
    arguments of `jax.jit`, and can be pickled and copied. A space of your own defines `shape`,
    `dtype`, `sample`, `contains` and `batch`; `@dataclass(frozen=True)` adds the rest.

    Attributes
    ----------
    shape : tuple of int
        Shape of one element. In a nested space, a tuple or dict of shapes that mirrors it.
    dtype : numpy.dtype
        Dtype of one element. In a nested space, a tuple or dict of dtypes. Without
        `jax_enable_x64`, JAX computes in 32 bits if it is a 64-bit dtype.
    """

    shape: Any
    dtype: Any

    @property
    def size(self) -> int:
        """Number of scalars in one element, over all leaves."""
        sizes = jax.tree.map(lambda _, shape: math.prod(shape), self.dtype, self.shape)
        return sum(jax.tree.leaves(sizes))

    @abstractmethod
    def sample(self, rng: jax.Array, mask: Any = None) -> Any:
        """
        Draw one element.

        The draw is uniform between bounds. A float without bounds is drawn from a normal
        distribution, a float with a single bound from an exponential one that starts there. All
        draws are finite. Without `jax_enable_x64`, only 32-bit numbers are drawn. The method can be
        traced.

        Parameters
        ----------
        rng : jax.Array
            PRNG key, typed or legacy.
        mask : pytree of bool, optional
            The legal elements, as `JaxEnv.action_mask` returns them. The draw is uniform among
            them. If no element is legal, it is uniform among all.

        Returns
        -------
        Any
            An element: a `jax.Array` of `shape` and `dtype`, or a tuple or dict of them.

        Raises
        ------
        ValueError
            If the mask is not bool, or has another shape or structure than masks of the space; if
            no 32-bit number is between bounds of 64 bits.
        TypeError
            If the space has no masks, such as a `Box` of floats.
        """

    @abstractmethod
    def contains(self, x: Any) -> bool | jax.Array:
        """
        Whether `x` is an element. Never raises.

        Arrays and NumPy scalars must have the shape of the space, a dtype of the same kind (bool,
        integer or float), and values between the bounds. Python scalars and nested lists are
        checked by value, and an `int` may stand for a float. Floats are compared in the space's
        dtype; subnormal floats count as 0, as in XLA. NaN is in no space.

        Parameters
        ----------
        x : Any
            The candidate.

        Returns
        -------
        bool or jax.Array
            A `bool` if `x` is concrete. A bool scalar array if any leaf of `x` is traced.
        """

    @abstractmethod
    def batch(self, n: int) -> "Space":
        """
        Return the space of `n` stacked elements: every shape gains a leading axis `n`.

        Raises
        ------
        ValueError
            If `n < 1`.
        """

    def __contains__(self, x: Any) -> bool:
        return bool(self.contains(x))


class FrozenSpace(Space):
    """
    An immutable space, equal to every space of its class with the same key.

    A subclass calls `_freeze` once, in its constructor, and defines two hooks: `_draw`, which
    `sample` compiles, and `_checks`, the conditions for an element.
    """

    _key: tuple[Any, ...]

    def _freeze(self, *key: Any, **fields: Any) -> None:
        vars(self).update(fields, _key=(type(self), *key))

    @abstractmethod
    def _draw(self, rng: jax.Array, mask: Any) -> Any: ...

    @abstractmethod
    def _checks(self, x: Any) -> Iterable[bool | jax.Array]: ...

    def sample(self, rng: jax.Array, mask: Any = None) -> Any:
        return self._compiled_draw(rng, mask)  # pyright: ignore[reportUnknownVariableType]

    # Compiled, so that a sample in a Python loop costs a single dispatch.
    @functools.partial(jax.jit, static_argnums=0)  # pyright: ignore[reportUnknownMemberType]
    def _compiled_draw(self, rng: jax.Array, mask: Any) -> Any:
        hint = "Map over them: `jax.vmap(space.sample)(rngs)`."
        require_key(rng, f"{type(self).__name__}.sample", hint)
        return self._draw(rng, mask)

    def contains(self, x: Any) -> bool | jax.Array:
        if _traced(x):
            return functools.reduce(jnp.logical_and, self._checks(x), jnp.bool_(True))
        return all(bool(check) for check in self._checks(x))

    def _batch_size(self, n: int) -> int:
        return require_count(f"{type(self).__name__}.batch: expected n", n)

    def __setattr__(self, name: str, *_: Any) -> NoReturn:
        raise dataclasses.FrozenInstanceError(
            f"{type(self).__name__} is frozen: {name!r} cannot be changed. Build a new space."
        )

    __delattr__ = __setattr__

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, FrozenSpace) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)


FrozenSpace.sample.__qualname__ = "Space.sample"  # for Python's message on a missing key


@functools.cache
def kind(dtype: Any) -> str:
    """`"bool"`, `"integer"` or `"float"` (bfloat16 too); `"other"` for any other dtype."""
    if jnp.issubdtype(dtype, np.timedelta64):  # a signed integer in NumPy
        return "other"
    kinds = {"bool": np.bool_, "integer": np.integer, "float": np.floating}
    return next((name for name, family in kinds.items() if jnp.issubdtype(dtype, family)), "other")


def canonical(dtype: Any) -> np.dtype[Any]:
    """The dtype that JAX uses for `dtype`: 32 bits in place of 64, unless x64 is enabled."""
    return cast(Any, jax.dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True))


def limits(dtype: Any) -> tuple[Any, Any]:
    """The smallest and the largest finite value of `dtype`, as Python numbers."""
    if kind(dtype) == "bool":
        return 0, 1
    floating = kind(dtype) == "float"
    info = cast(Any, jnp.finfo if floating else jnp.iinfo)(dtype)
    convert = float if floating else int
    return convert(info.min), convert(info.max)


def is_array(x: Any) -> bool:
    """Whether `x` has a dtype: a NumPy array or scalar, a JAX array, a tracer."""
    return isinstance(x, np.ndarray | np.generic | jax.Array)


def is_list(x: Any) -> TypeGuard[Sequence[Any]]:
    """Whether `x` is a list or a tuple."""
    return isinstance(x, list | tuple)


def is_mapping(x: Any) -> TypeGuard[Mapping[Any, Any]]:
    """Whether `x` is a mapping, such as a dict."""
    return isinstance(x, Mapping)


RETURN_LIKE = "Return what `observation_space.sample(rng)` looks like, or change the space."


def require_container(like: Any, x: Any, who: str, name: str, hint: str) -> None:
    """Raise a ValueError unless `x` is a dict with the keys of `like`, or as long a tuple."""
    if is_mapping(like):
        fits = is_mapping(x) and x.keys() == like.keys()
        wanted = f"a dict with keys {sorted(like)}"
    else:
        fits = is_list(x) and len(x) == len(like)
        wanted = f"a tuple of length {len(like)}"
    if not fits:
        both = is_mapping(like) and is_mapping(x)
        got = f"keys {sorted(map(str, x))}" if both else describe(x)
        raise ValueError(f"{who}: expected {name} to be {wanted}; got {got}. {hint}")


def describe(x: Any) -> str:
    """What `x` is, for a message."""
    if is_array(x):
        return f"{x.shape} {x.dtype}"
    if is_list(x):
        return f"a {type(x).__name__} of length {len(x)}"
    return f"{type(x).__name__} {x!r}" if isinstance(x, bool | int | float) else type(x).__name__


def has_kind(dtype: Any, x: Any) -> bool:
    """Whether the leaf `x` has the kind of `dtype`; a Python int may stand for a float."""
    python_scalar = not is_array(x)
    if python_scalar:
        kinds = {bool: "bool", int: "integer", float: "float"}
        found = next((name for cls, name in kinds.items() if isinstance(x, cls)), "other")
    else:
        found = kind(x.dtype)
        # Under `jit`, a Python scalar is a weakly typed tracer.
        python_scalar = isinstance(x, Tracer) and getattr(x.aval, "weak_type", False)
    wanted = kind(dtype)
    return found == wanted or (python_scalar and (found, wanted) == ("integer", "float"))


def list_leaves(
    x: Any, shape: tuple[int, ...], index: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], Any]]:
    """
    Yield `(index, leaf)` for an array of `shape` that is written as nested lists.

    A list whose length does not match `shape` is yielded as a leaf; no space contains it.
    """
    if is_list(x) and shape and len(x) == shape[0]:
        for i, item in enumerate(x):
            yield from list_leaves(item, shape[1:], (*index, i))
    else:
        yield index, x


def _traced(x: Any) -> bool:
    if is_mapping(x):
        return any(_traced(item) for item in x.values())
    if is_list(x):
        return any(_traced(item) for item in x)
    return isinstance(x, Tracer)
