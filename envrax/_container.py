"""A list or a dict of known length or keys: what a fleet was given, takes and gives back."""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast


@dataclass(frozen=True)
class Container:
    """
    The form of a list or a dict, without its values.

    Attributes
    ----------
    size : int
        Number of values.
    keys : tuple, optional
        The keys of a dict, in order; None for a list.
    """

    size: int
    keys: tuple[Any, ...] | None = None

    @classmethod
    def of(cls, values: Any, who: str, of_what: str) -> "tuple[Container, list[Any]]":
        """
        Take a list or a dict apart.

        Parameters
        ----------
        values : Mapping or iterable
            Anything but a Mapping counts as a list.
        who, of_what : str
            The caller and what it wants, for the message.

        Raises
        ------
        TypeError
            If `values` is neither.
        """
        if isinstance(values, Mapping):
            items = cast(Mapping[Any, Any], values)
            return cls(len(items), tuple(items)), list(items.values())
        is_ordered = isinstance(values, Iterable) and not isinstance(values, set | frozenset)
        if isinstance(values, str | bytes) or not is_ordered:
            raise TypeError(
                f"{who}: expected a list or a dict of {of_what}; got {values!r}. Put it into a "
                "list."
            )
        listed = list(cast(Iterable[Any], values))
        return cls(len(listed)), listed

    def build(self, values: Iterable[Any]) -> Any:
        """The values in a list, or in a dict under its keys."""
        if self.keys is None:
            return list(values)
        return dict(zip(self.keys, values, strict=True))

    def labels(self) -> list[Any]:
        """What a caller calls each place: its key, or its index."""
        return list(range(self.size) if self.keys is None else self.keys)

    def path(self, name: str, position: int) -> str:
        """How a caller writes one of the values of `name`."""
        return f"{name}[{self.labels()[position]!r}]"

    def read(self, who: str, **given: Any) -> list[list[Any]]:
        """
        The values of containers of this form, in order.

        Parameters
        ----------
        who : str
            The caller, for the message.
        **given
            The containers, under the names that the caller knows them by.

        Raises
        ------
        TypeError
            If one is of the other form.
        ValueError
            If a length is wrong, or keys are missing or unexpected.
        """
        names = " and ".join(given)
        if self.keys is not None:
            return self._read_dicts(who, self.keys, names, given)
        for name, values in given.items():
            if isinstance(values, Mapping | str | bytes) or not hasattr(values, "__len__"):
                raise TypeError(
                    f"{who}: expected {names}, each a list of {self.size}; got {name} as a "
                    f"{type(cast(Any, values)).__name__}."
                )
        lengths = [len(values) for values in given.values()]
        if lengths != [self.size] * len(given):
            got = " and ".join(f"{n} {name}" for n, name in zip(lengths, given, strict=True))
            raise ValueError(f"{who}: expected {self.size} {names}, got {got}.")
        return [list(values) for values in given.values()]

    def _read_dicts(
        self, who: str, keys: tuple[Any, ...], names: str, given: dict[str, Any]
    ) -> list[list[Any]]:
        expected = f"{who}: expected {names}, each a dict with keys {_listed(keys)}"
        wrong: list[str] = []
        for name, values in given.items():
            if not isinstance(values, Mapping):
                raise TypeError(f"{expected}; got {name} as a {type(values).__name__}.")
            found = cast(Mapping[Any, Any], values)
            if missing := [key for key in keys if key not in found]:
                wrong.append(f"{name} without {_listed(missing)}")
            if unexpected := [key for key in found if key not in keys]:
                wrong.append(f"{name} with the unexpected {_listed(unexpected)}")
        if wrong:
            raise ValueError(f"{expected}; got {', '.join(wrong)}.")
        return [[values[key] for key in keys] for values in given.values()]

    def position(self, who: str, idx: Any) -> int:
        """
        The place of an index (list rules, negative allowed) or of a key.

        Raises
        ------
        IndexError
            If an index is out of range.
        KeyError
            If a key is not one of the dict's.
        TypeError
            If the index is no integer.
        """
        if self.keys is not None:
            if idx not in self.keys:
                raise KeyError(f"{who}: expected a key of {_listed(self.keys)}; got {idx!r}.")
            return self.keys.index(idx)
        try:
            index = operator.index(idx)
        except TypeError as error:
            raise TypeError(
                f"{who}: expected an index from {-self.size} to {self.size - 1}; got {idx!r}."
            ) from error
        if not -self.size <= index < self.size:
            raise IndexError(
                f"{who}: expected an index from {-self.size} to {self.size - 1}; got {index}."
            )
        return index % self.size

    def show(self, of_one: Callable[[int], str]) -> str:
        """A repr with `of_one(position)` for each value."""
        shown = [of_one(i) for i in range(self.size)]
        if self.keys is None:
            return f"[{', '.join(shown)}]"
        pairs = zip(self.keys, shown, strict=True)
        return f"{{{', '.join(f'{key!r}: {one}' for key, one in pairs)}}}"


def _listed(keys: Iterable[Any]) -> str:
    return ", ".join(map(repr, keys))
