"""What a space is, and the rules on kinds and leaves that `contains` and `conform` share."""

from __future__ import annotations

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

from envrax._count import require_count
from envrax._keys import require_key


class Space(ABC):
    """The set that the observations or the actions of an environment come from.

    The spaces of this module are frozen: hashable, comparable by value, legal as static arguments
    of ``jax.jit``, and they survive ``pickle`` and ``copy.deepcopy``. A space of your own defines
    `shape`, `dtype`, `sample`, `contains` and `batch`; ``@dataclass(frozen=True)`` gives it the
    rest.

    Attributes
    ----------
    shape : tuple of int
        Shape of one element. In a nested space, a tuple or dict of shapes that mirrors it.
    dtype : numpy.dtype
        Dtype of one element, mirrored likewise. Without ``jax_enable_x64`` a 64-bit dtype holds
        the values that its 32-bit one can.
    """

    shape: Any
    dtype: Any

    @property
    def size(self) -> int:
        """Number of scalars in one element, over all leaves."""

        def count(_: Any, shape: tuple[int, ...]) -> int:
            return math.prod(shape)

        return sum(jax.tree.leaves(jax.tree.map(count, self.dtype, self.shape)))

    @abstractmethod
    def sample(self, rng: jax.Array) -> Any:
        """Draw one element.

        Uniform on bounded sets; normal where unbounded, the bound plus or minus an exponential
        where bounded on one side. Always finite. Traceable.

        Parameters
        ----------
        rng : jax.Array
            PRNG key, typed or legacy.

        Returns
        -------
        Any
            An element: a ``jax.Array`` of `shape` and `dtype`, or a tuple or dict of them.
        """

    @abstractmethod
    def contains(self, x: Any) -> bool | jax.Array:
        """Whether `x` is an element. Never raises.

        Arrays (NumPy scalars among them) are judged by shape, bounds and dtype kind: bool, integer
        or float. Python scalars and nested lists are judged by value: an ``int`` may stand for a
        float; no other kind may stand for another. Floats are compared in the space's dtype. NaN
        is in no space.

        Parameters
        ----------
        x : Any
            The candidate.

        Returns
        -------
        bool or jax.Array
            A ``bool`` if `x` is concrete; a bool scalar array if any leaf of `x` is traced.
        """

    @abstractmethod
    def batch(self, n: int) -> Space:
        """Return the space of `n` stacked elements: every shape gains a leading axis `n`.

        Raises
        ------
        ValueError
            If ``n < 1``.
        """

    def __contains__(self, x: Any) -> bool:
        return bool(self.contains(x))


class FrozenSpace(Space):
    """A space that equals every other of its class with the same key.

    A subclass calls `_freeze` once, in its constructor, and fills two hooks: `_draw`, which
    `sample` compiles, and `_checks`, the conditions under which something is an element.
    """

    _key: tuple[Any, ...]

    def _freeze(self, *key: Any, **fields: Any) -> None:
        vars(self).update(fields, _key=(type(self), *key))

    @abstractmethod
    def _draw(self, rng: jax.Array) -> Any: ...

    @abstractmethod
    def _checks(self, x: Any) -> Iterable[bool | jax.Array]: ...

    def sample(self, rng: jax.Array) -> Any:
        return self._compiled_draw(rng)  # pyright: ignore[reportUnknownVariableType]

    # So that a Python loop that samples pays for one dispatch.
    @functools.partial(jax.jit, static_argnums=0)  # pyright: ignore[reportUnknownMemberType]
    def _compiled_draw(self, rng: jax.Array) -> Any:
        hint = "Map over them: `jax.vmap(space.sample)(rngs)`."
        require_key(rng, f"{type(self).__name__}.sample", hint)
        return self._draw(rng)

    def contains(self, x: Any) -> bool | jax.Array:
        if _traced(x):
            return functools.reduce(jnp.logical_and, self._checks(x), jnp.bool_(True))
        return all(bool(check) for check in self._checks(x))

    def _batch_size(self, n: int) -> int:
        return require_count(f"{type(self).__name__}.batch: expected n", n)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise dataclasses.FrozenInstanceError(
            f"{type(self).__name__} is frozen: {name!r} cannot be set. Build a new space."
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise dataclasses.FrozenInstanceError(
            f"{type(self).__name__} is frozen: {name!r} cannot be deleted. Build a new space."
        )

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, FrozenSpace) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)


@functools.cache
def kind(dtype: Any) -> str:
    """``"bool"``, ``"integer"`` or ``"float"`` (bfloat16 too); ``"other"`` for any other dtype."""
    kinds = {"bool": np.bool_, "integer": np.integer, "float": np.floating}
    return next((name for name, family in kinds.items() if jnp.issubdtype(dtype, family)), "other")


def canonical(dtype: Any) -> np.dtype[Any]:
    """The dtype that JAX computes in for `dtype`: without x64, the 32-bit one for a 64-bit one."""
    narrowed: Any = jax.dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)
    return narrowed


def limits(dtype: Any) -> tuple[Any, Any]:
    """The least and the greatest finite value of `dtype`, as Python numbers."""
    if kind(dtype) == "bool":
        return 0, 1
    floating = kind(dtype) == "float"
    info = cast(Any, jnp.finfo if floating else jnp.iinfo)(dtype)
    convert = float if floating else int
    return convert(info.min), convert(info.max)


def is_array(x: Any) -> bool:
    """Whether `x` has a dtype of its own: a NumPy array or scalar, a JAX array, a tracer."""
    return isinstance(x, np.ndarray | np.generic | jax.Array)


def is_list(x: Any) -> TypeGuard[Sequence[Any]]:
    """Whether `x` is a list or a tuple."""
    return isinstance(x, list | tuple)


def is_mapping(x: Any) -> TypeGuard[Mapping[Any, Any]]:
    """Whether `x` is a mapping, such as a dict."""
    return isinstance(x, Mapping)


def admits(dtype: Any, x: Any) -> bool:
    """Whether the leaf `x` is of the kind of `dtype`; a Python int may stand for a float."""
    literal = not is_array(x)
    if literal:
        types = {bool: "bool", int: "integer", float: "float"}
        found = next((name for type_, name in types.items() if isinstance(x, type_)), "other")
    else:
        found = kind(x.dtype)
        # What jit makes of a Python scalar.
        literal = isinstance(x, Tracer) and getattr(x.aval, "weak_type", False)
    wanted = kind(dtype)
    return found == wanted or (literal and (found, wanted) == ("integer", "float"))


def leaves(
    x: Any, shape: tuple[int, ...], index: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield ``(index, leaf)`` for an array of `shape` written as nested lists.

    A list whose length `shape` does not allow is a leaf itself, and no legal one.
    """
    if is_list(x) and shape and len(x) == shape[0]:
        for i, item in enumerate(x):
            yield from leaves(item, shape[1:], (*index, i))
    else:
        yield index, x


def _traced(x: Any) -> bool:
    if is_mapping(x):
        return any(_traced(item) for item in x.values())
    if is_list(x):
        return any(_traced(item) for item in x)
    return isinstance(x, Tracer)
