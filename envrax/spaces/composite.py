"""`Tuple` and `Dict`: containers of spaces."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self, cast

import jax

from envrax.spaces.base import (
    RETURN_LIKE,
    FrozenSpace,
    Space,
    is_list,
    is_mapping,
    require_container,
)


class CompositeSpace(FrozenSpace):
    """
    A container of spaces. Its elements, `shape` and `dtype` are containers of the same structure.

    A subclass defines `_pack`, which makes a container of the children's values, and `_unpack`,
    which takes them out of it.
    """

    _children: tuple[Space, ...]

    @abstractmethod
    def _pack(self, values: Iterable[Any]) -> Any: ...

    @abstractmethod
    def _unpack(self, x: Any) -> Iterable[Any] | None:
        """The children's values in `x`; None if `x` is another kind of container."""

    @property
    def shape(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._pack(child.shape for child in self._children)

    @property
    def dtype(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._pack(child.dtype for child in self._children)

    def _draw(self, rng: jax.Array, mask: Any) -> Any:
        keys = jax.random.split(rng, len(self._children))
        masks = [None] * len(self._children) if mask is None else self._unpack(mask)
        if masks is None:
            raise ValueError(
                f"{type(self).__name__}.sample: expected a mask for each space of {self}, None "
                f"where all is legal; got one of {jax.tree.structure(mask)}."
            )
        draws = zip(self._children, keys, masks, strict=True)
        return self._pack(_sample(child, key, mask) for child, key, mask in draws)

    def _checks(self, x: Any) -> Iterator[bool | jax.Array]:
        values = self._unpack(x)
        if values is None:
            yield False
        else:
            for child, value in zip(self._children, values, strict=True):
                yield child.contains(value)

    def batch(self, n: int) -> Self:
        n = self._batch_size(n)
        return cast(Any, type(self))(self._pack(child.batch(n) for child in self._children))

    def __len__(self) -> int:
        return len(self._children)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._pack(self._children)})"


class Tuple(CompositeSpace):
    """
    Tuples with one element of each space. Lists count as elements too.

    Parameters
    ----------
    spaces : iterable of Space
        The spaces. The `Tuple` can be indexed and iterated over.

    Raises
    ------
    TypeError
        If an entry is not a `Space`.

    Examples
    --------
    >>> space = Tuple((Discrete(3), Box(0.0, 1.0, (2,))))
    >>> space.contains((2, [0.0, 0.5]))
    True
    >>> space.batch(8).shape
    ((8,), (8, 2))
    """

    def __init__(self, spaces: Iterable[Space]) -> None:
        entries = enumerate(spaces)
        children = tuple(_require_space(space, f"Tuple: entry {i}") for i, space in entries)
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


class Dict(CompositeSpace):
    """
    Dicts with one element of each named space.

    Keys are sorted, as in JAX. The order in which you give them does not affect samples.

    Parameters
    ----------
    spaces : mapping of str to Space, optional
        The spaces by name. `space[name]` returns one of them.
    **kwargs : Space
        More spaces by name.

    Raises
    ------
    TypeError
        If a key is not a string, or a value is not a `Space`.
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
        given: dict[Any, Space] = dict(spaces or {})
        if twice := given.keys() & kwargs.keys():
            raise ValueError(f"Dict: expected each key once; got {sorted(twice)} twice.")
        given |= kwargs
        for key, space in given.items():
            if not isinstance(key, str):
                raise TypeError(f"Dict: expected string keys; got {key!r}.")
            _require_space(space, f"Dict: entry {key!r}")
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
        has_keys = is_mapping(x) and set(x) == set(self._keys)
        return [x[key] for key in self._keys] if has_keys else None


def map_leaves(function: Callable[..., Any], space: Space, *values: Any) -> Any:
    """
    `function(leaf, *values)` for each leaf of a nested space, in tuples and dicts as an element.

    `values` are nested in the same way; None may stand for any part.
    """
    if isinstance(space, Dict | Tuple):
        for x in values:
            if x is not None:
                require_container(space.spaces, x, type(space).__name__, "an element", RETURN_LIKE)
    if isinstance(space, Dict):
        rows = {k: (child, *(x and x[k] for x in values)) for k, child in space.items()}
        return {k: map_leaves(function, *row) for k, row in rows.items()}
    if isinstance(space, Tuple):
        columns = ([None] * len(space) if x is None else x for x in values)
        return tuple(map_leaves(function, *row) for row in zip(space, *columns, strict=True))
    return function(space, *values)


def _sample(child: Space, key: jax.Array, mask: Any) -> Any:
    return child.sample(key) if mask is None else child.sample(key, mask)


def _require_space(space: Any, owner: str) -> Space:
    if not isinstance(space, Space):
        raise TypeError(f"{owner}: expected a Space; got {space!r}.")
    return space
