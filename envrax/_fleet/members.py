"""The members of a fleet: the container, their attributes and their names."""

import itertools
from collections import Counter
from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar

from envrax._fleet.container import Container
from envrax.batched_env import is_straight
from envrax.env import Resource


def view(path: str) -> Any:
    """A property: one attribute of every member, in the container of the fleet."""
    read = attrgetter(path)
    return property(lambda fleet: fleet._each(read), doc=f"`{path}` of every member.")


class Members(Resource):
    """
    Environments, or batches of them, in a list or a dict.

    Parameters
    ----------
    members : list or dict
        The members.
    """

    _kind: ClassVar[type]
    _empty: ClassVar[str]

    def __init__(self, members: Any) -> None:
        who, what = type(self).__name__, f"{self._kind.__name__}s"
        self._container, self._members = Container.of(members, who, what)
        if not self._members:
            raise ValueError(self._empty)
        on_host: list[Any] = []
        for label, member in zip(self._container.labels, self._members, strict=True):
            if not isinstance(member, self._kind):
                raise TypeError(f"{who}: expected {what}; got {member!r} at {label!r}.")
            if any(member is other for other in on_host):
                raise ValueError(
                    f"{who}: expected each member that runs on the host only once; got {member!r} "
                    f"again at {label!r}. Build a second instance."
                )
            if is_straight(member):
                on_host.append(member)
        functions = [getattr(member, "_write_first", ()) for member in self._members]
        self._write_first = tuple(itertools.chain(*functions))

    def _each(self, of_one: Callable[[Any], Any]) -> Any:
        """`of_one` of every member, in the fleet's list or dict."""
        return self._container.build(map(of_one, self._members))

    @property
    def envs(self) -> Any:
        """The members, in a list or a dict."""
        return self._container.build(self._members)

    @property
    def num_envs(self) -> int:
        """Number of members, M."""
        return len(self._members)

    @property
    def class_groups(self) -> dict[str, list[Any]]:
        """Indices, or keys, of the members, by the class name of the unwrapped environment."""
        groups: dict[str, list[Any]] = {}
        for label, member in zip(self._container.labels, self._members, strict=True):
            groups.setdefault(_class_name(member), []).append(label)
        return groups

    @property
    def env_keys(self) -> list[Any]:
        """
        A unique name of every member, for logs: `["BallEnv_0", "BallEnv_1", "CartPole"]`.

        A dict's keys, if the fleet was built from a dict.
        """
        if self._container.keys is not None:
            return list(self._container.keys)
        return _unique([_class_name(member) for member in self._members])

    def close(self) -> None:
        """Close every member."""
        for member in self._members:
            member.close()

    def __len__(self) -> int:
        return len(self._members)


def _class_name(member: Any) -> str:
    base = getattr(member, "unwrapped", None)
    return member.name if base is None else getattr(base, "class_name", type(base).__name__)


def _unique(names: list[str]) -> list[str]:
    """Number the names that occur more than once, without taking a name that exists."""
    counts = Counter(names)
    taken = set(names)
    unique: list[str] = []
    for name in names:
        if counts[name] > 1:
            candidates = (f"{name}_{i}" for i in itertools.count())
            name = next(candidate for candidate in candidates if candidate not in taken)
            taken.add(name)
        unique.append(name)
    return unique
