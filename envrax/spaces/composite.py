"""Spaces made of spaces."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import jax

from .base import FrozenSpace, Space, is_list, is_mapping


class CompositeSpace(FrozenSpace):
    """A container of spaces; everything about it mirrors the container.

    A subclass says how the children's values are packed into the container, and how they are
    taken out of a candidate.
    """

    _children: tuple[Space, ...]

    @abstractmethod
    def _pack(self, values: Iterable[Any]) -> Any: ...

    @abstractmethod
    def _unpack(self, x: Any) -> Iterable[Any] | None:
        """The children's values in `x`; None if `x` is another container."""

    @property
    def shape(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._pack(child.shape for child in self._children)

    @property
    def dtype(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._pack(child.dtype for child in self._children)

    def _draw(self, rng: jax.Array) -> Any:
        keys = jax.random.split(rng, len(self._children))
        return self._pack(child.sample(keys[i]) for i, child in enumerate(self._children))

    def _checks(self, x: Any) -> Iterator[bool | jax.Array]:
        values = self._unpack(x)
        if values is None:
            yield False
        else:
            for child, value in zip(self._children, values, strict=True):
                yield child.contains(value)

    def __len__(self) -> int:
        return len(self._children)


class Tuple(CompositeSpace):
    """Tuples with one element of each of `spaces`; lists of them count as elements, too.

    Parameters
    ----------
    spaces : iterable of Space
        The spaces, also found by index and by iteration.

    Raises
    ------
    TypeError
        If an entry is no `Space`.

    Examples
    --------
    >>> space = Tuple((Discrete(3), Box(0.0, 1.0, (2,))))
    >>> space.contains((2, [0.0, 0.5]))
    True
    >>> space.batch(8).shape
    ((8,), (8, 2))
    """

    def __init__(self, spaces: Iterable[Space]) -> None:
        if not isinstance(cast(Any, spaces), Iterable):
            raise TypeError(f"Tuple: expected a sequence of spaces; got {spaces!r}.")
        children = tuple(_space(space, f"Tuple: entry {i}") for i, space in enumerate(spaces))
        self._freeze(children, _children=children)

    @property
    def spaces(self) -> tuple[Space, ...]:
        """The spaces, in order."""
        return self._children

    def __getitem__(self, index: int) -> Space:
        return self._children[index]

    def __iter__(self) -> Iterator[Space]:
        return iter(self._children)

    def _pack(self, values: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(values)

    def _unpack(self, x: Any) -> Iterable[Any] | None:
        return x if is_list(x) and len(x) == len(self) else None

    def batch(self, n: int) -> Tuple:
        n = self._batch_size(n)
        return Tuple(child.batch(n) for child in self._children)

    def __repr__(self) -> str:
        return f"Tuple({self._children})"


class Dict(CompositeSpace):
    """Dicts with one element of each of the named spaces.

    The keys are kept sorted, as JAX sorts a dict's: however a space is written down, the same key
    draws the same sample.

    Parameters
    ----------
    spaces : mapping of str to Space, optional
        The spaces, also found by key.
    **kwargs : Space
        More of them.

    Raises
    ------
    TypeError
        If a key is no string or a value is no `Space`.
    ValueError
        If a key is given twice.

    Examples
    --------
    >>> space = Dict(place=Box(0.0, 1.0, (2,)), lives=Discrete(3))
    >>> space.shape, space.size
    ({'lives': (), 'place': (2,)}, 3)
    >>> space.contains({"lives": 2, "place": [0.0, 0.5]})
    True
    """

    _keys: tuple[str, ...]

    def __init__(self, spaces: Mapping[str, Space] | None = None, **kwargs: Space) -> None:
        try:
            given: dict[Any, Space] = dict(spaces or {})
        except (TypeError, ValueError):
            raise TypeError(
                f"Dict: expected a mapping of keys to spaces; got {spaces!r}."
            ) from None
        if twice := given.keys() & kwargs.keys():
            raise ValueError(f"Dict: expected each key once; got {sorted(twice)} twice.")
        given |= kwargs
        for key, space in given.items():
            if not isinstance(key, str):
                raise TypeError(f"Dict: expected string keys; got {key!r}.")
            _space(space, f"Dict: entry {key!r}")
        keys = tuple(sorted(given))
        children = tuple(given[key] for key in keys)
        self._freeze(keys, children, _keys=keys, _children=children)

    @property
    def spaces(self) -> dict[str, Space]:
        """The spaces by key, sorted; a copy."""
        return dict(self.items())

    def __getitem__(self, key: str) -> Space:
        return self.spaces[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def keys(self) -> Iterable[str]:
        """The keys, sorted."""
        return self._keys

    def values(self) -> Iterable[Space]:
        """The spaces, in the order of the keys."""
        return self._children

    def items(self) -> Iterable[tuple[str, Space]]:
        """Pairs of key and space, in the order of the keys."""
        return zip(self._keys, self._children, strict=True)

    def _pack(self, values: Iterable[Any]) -> dict[str, Any]:
        return dict(zip(self._keys, values, strict=True))

    def _unpack(self, x: Any) -> Iterable[Any] | None:
        same = is_mapping(x) and set(x) == set(self._keys)
        return [x[key] for key in self._keys] if same else None

    def batch(self, n: int) -> Dict:
        n = self._batch_size(n)
        return Dict(self._pack(child.batch(n) for child in self._children))

    def __repr__(self) -> str:
        return f"Dict({self.spaces})"


def _space(space: Any, owner: str) -> Space:
    if not isinstance(space, Space):
        raise TypeError(f"{owner}: expected a Space; got {space!r}.")
    return space
