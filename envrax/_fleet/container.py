"""`Container`: the list or dict that a fleet was built from, and takes and returns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from envrax._checks.counts import slot_index


@dataclass(frozen=True)
class Container:
    """
    The keys of a dict, or the length of a list, without the values.

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
            An iterable that is not a mapping counts as a list.
        who, of_what : str
            The caller and what it wants, for the message.

        Raises
        ------
        TypeError
            If `values` is neither, or is a str, bytes or set.
        """
        if isinstance(values, Mapping):
            items = cast(Mapping[Any, Any], values)
            return cls(len(items), tuple(items)), list(items.values())
        if not isinstance(values, Iterable) or isinstance(values, str | bytes | set | frozenset):
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

    def transpose(self, rows: list[Any]) -> tuple[Any, ...]:
        """From the results of each member, one container for each result."""
        columns = zip(*rows, strict=True)
        if self.keys is None:
            return tuple([list(values) for values in columns])
        return tuple([dict(zip(self.keys, values, strict=True)) for values in columns])

    @property
    def labels(self) -> Sequence[Any]:
        """The key or the index of each place."""
        return range(self.size) if self.keys is None else self.keys

    def read(self, who: str, **given: Any) -> list[list[Any]]:
        """
        The values of containers of this form, in order.

        Parameters
        ----------
        who : str
            The caller, for the message.
        **given
            The containers, by their names in error messages.

        Raises
        ------
        TypeError
            If one is of the other form.
        ValueError
            If a length is wrong, or keys are missing or unexpected.
        """
        keys = self.keys
        if keys is None and all([type(x) is list and len(x) == self.size for x in given.values()]):
            return [list(values) for values in given.values()]
        names = " and ".join(given)
        form = f"list of {self.size}" if keys is None else f"dict with keys {_listed(keys)}"
        expected = f"{who}: expected {names}, each a {form}"
        for name, values in given.items():
            if not (_is_list(values) if keys is None else isinstance(values, Mapping)):
                raise TypeError(f"{expected}; got {name} as a {type(values).__name__}.")
        if keys is None:
            if any(len(values) != self.size for values in given.values()):
                got = " and ".join(f"{len(values)} {name}" for name, values in given.items())
                raise ValueError(f"{who}: expected {self.size} {names}, got {got}.")
            return [list(values) for values in given.values()]
        wrong: list[str] = []
        for name, values in given.items():
            if missing := [key for key in keys if key not in values]:
                wrong.append(f"{name} without {_listed(missing)}")
            if unexpected := [key for key in values if key not in keys]:
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
        """
        if self.keys is not None:
            if idx not in self.keys:
                raise KeyError(f"{who}: expected a key of {_listed(self.keys)}; got {idx!r}.")
            return self.keys.index(idx)
        return slot_index(who, idx, self.size)

    def show(self, values: Iterable[str]) -> str:
        """A repr, from the reprs of the values."""
        if self.keys is None:
            return f"[{', '.join(values)}]"
        pairs = zip(self.keys, values, strict=True)
        return f"{{{', '.join(f'{key!r}: {value}' for key, value in pairs)}}}"


def _is_list(values: Any) -> bool:
    return hasattr(values, "__len__") and not isinstance(values, Mapping | str | bytes)


def _listed(keys: Iterable[Any]) -> str:
    return ", ".join(map(repr, keys))
