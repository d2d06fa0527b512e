"""Suites: families of environments that packages ship, and sets of suites."""

import copy
import dataclasses
import inspect
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar

from envrax._checks.packages import is_installed
from envrax.error import MissingPackageError
from envrax.registry import EnvSpec, copied, load_entry, names_of_suite

SuiteT = TypeVar("SuiteT", bound="EnvSuite")


class _Call:
    """Records the constructor arguments of a suite, which override attributes of its class."""

    _given: set[str]

    if not TYPE_CHECKING:  # checkers read the fields

        def __new__(cls, *args, **kwargs):
            self = super().__new__(cls)
            self._given = {*list(inspect.signature(cls).parameters)[: len(args)], *kwargs}
            return self


@dataclass
class EnvSuite(_Call):
    """
    A family of environments under one prefix and version.

    A suite package subclasses it, sets the fields as dataclass fields or plain class attributes,
    and calls `envrax.register_suite(MySuite())` when it is imported. Iteration yields canonical
    ids; an index or a slice gives a suite of the same class. Every suite copies its configs.

    Attributes
    ----------
    prefix : str
        First part of the ids, "demo" in "demo/Ball-v0".
    category : str
        The kind of environments, for listings.
    version : str
        Last part of the ids, "v0" in "demo/Ball-v0".
    required_packages : list of str
        Import names of the packages that the environments need.
    specs : list of EnvSpec
        The environments, each under its short name.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> specs = [EnvSpec("Counting", CountingEnv, EnvConfig(max_steps=20))]
    >>> suite = EnvSuite(prefix="fake", category="Fakes", specs=specs)
    >>> list(suite), "Counting" in suite
    (['fake/Counting-v0'], True)
    """

    prefix: str = ""
    category: str = ""
    version: str = "v0"
    required_packages: list[str] = field(default_factory=list[str])
    specs: list[EnvSpec] = field(default_factory=list[EnvSpec])

    def __post_init__(self) -> None:
        for known in (x for x in dataclasses.fields(self) if x.name not in self._given):
            value = _class_attribute(type(self), known.name)
            # An `__init__` of the subclass may have passed another value on.
            if value is not MISSING and getattr(self, known.name) == _default(known):
                setattr(self, known.name, value)
        _own(self, self.specs)

    @property
    def envs(self) -> list[str]:
        """The short names."""
        return [spec.name for spec in self.specs]

    @property
    def n_envs(self) -> int:
        """The number of environments."""
        return len(self.specs)

    def get_name(self, name: str, version: str | None = None) -> str:
        """The canonical id: "{prefix}/{name}-{version}"; empty parts are left out."""
        version = version or self.version
        prefix, suffix = self.prefix and f"{self.prefix}/", version and f"-{version}"
        return f"{prefix}{name}{suffix}"

    def all_names(self, version: str | None = None) -> list[str]:
        """The canonical ids of all environments."""
        return [self.get_name(name, version) for name in self.envs]

    def check(self) -> dict[str, bool]:
        """Which of the required packages are installed."""
        return {package: is_installed(package) for package in self.required_packages}

    def is_available(self) -> bool:
        """Whether all required packages are installed."""
        return all(self.check().values())

    def __len__(self) -> int:
        return self.n_envs

    def __iter__(self) -> Iterator[str]:
        return iter(self.all_names())

    def __contains__(self, name: object) -> bool:
        return name in self.envs or name in self.all_names()

    def __getitem__(self, index: int | slice) -> Self:
        return _part(self, self.specs[index] if isinstance(index, slice) else [self.specs[index]])


def load_suite(prefix: str) -> EnvSuite:
    """
    The suite registered under a prefix, after importing the package that declares it.

    Parameters
    ----------
    prefix : str
        One of `available_suites()`.

    Returns
    -------
    EnvSuite
        All environments of that prefix, in the order in which they were registered.

    Raises
    ------
    ValueError
        If there is no such suite; the message offers close matches.
    MissingPackageError
        If it needs a package that is not installed.
    """
    found = EnvSet.from_names(names_of_suite(prefix)).suites
    if len(found) == 1:
        return found[0]
    # Several suites share the prefix: the names keep their versions.
    specs = [
        dataclasses.replace(spec, name=suite.get_name(spec.name).partition("/")[2])
        for suite in found
        for spec in suite.specs
    ]
    packages = dict.fromkeys(name for suite in found for name in suite.required_packages)
    return EnvSuite(prefix, found[0].category if found else "", "", [*packages], specs)


class EnvSet:
    """Several suites, in the order given, as one list of environments."""

    def __init__(self, *suites: EnvSuite) -> None:
        self.suites = list(suites)

    @classmethod
    def from_names(cls, names: Iterable[str]) -> "EnvSet":
        """
        Rebuild a set from canonical ids, in their order.

        Consecutive ids of one category, prefix and version become one suite. Ids that a suite
        registered keep its class and its `required_packages`.

        Raises
        ------
        ValueError
            If a name is not registered.
        """
        runs = itertools.groupby(map(_suite_of, names), key=lambda suite: suite[:0])
        return cls(*(_part(head, (x for one in run for x in one.specs)) for head, run in runs))

    @property
    def n_envs(self) -> int:
        """The number of environments."""
        return len(self.all_names())

    def all_names(self, version: str | None = None) -> list[str]:
        """The canonical ids of all environments, suite by suite."""
        return [name for suite in self.suites for name in suite.all_names(version)]

    def env_categories(self) -> dict[str, int]:
        """The number of environments of each category."""
        return dict(Counter(suite.category for suite in self.suites for _ in suite))

    def verify_packages(self) -> None:
        """
        Check that the packages that the suites need are installed.

        Raises
        ------
        MissingPackageError
            If some are missing; the message names every suite and package.
        """
        found = ((suite, suite.check()) for suite in self.suites)
        lacking = [
            f"{type(suite).__name__} (prefix {suite.prefix!r}, category {suite.category!r}) lacks "
            + ", ".join(name for name, installed in check.items() if not installed)
            for suite, check in found
            if not all(check.values())
        ]
        if lacking:
            raise MissingPackageError(
                "EnvSet.verify_packages: expected the packages of every suite to be installed; "
                f"got: {'; '.join(lacking)}. Install them."
            )

    def __len__(self) -> int:
        return self.n_envs

    def __iter__(self) -> Iterator[str]:
        return iter(self.all_names())

    def __add__(self, other: "EnvSet | EnvSuite") -> "EnvSet":
        added = other.suites if isinstance(other, EnvSet) else [other]
        return EnvSet(*self.suites, *added)

    def __repr__(self) -> str:
        classes = ", ".join(type(suite).__name__ for suite in self.suites)
        return f"EnvSet([{classes}], total={self.n_envs})"


def _part(suite: SuiteT, specs: Iterable[EnvSpec]) -> SuiteT:
    """The same suite with other specs."""
    part = copy.copy(suite)
    _own(part, specs)
    return part


def _own(suite: EnvSuite, specs: Iterable[EnvSpec]) -> None:
    """Give a suite its own copies of lists and configs."""
    suite.required_packages = list(suite.required_packages)
    suite.specs = [copied(spec) for spec in specs]


def _class_attribute(cls: type, name: str) -> Any:
    """The value of a field in the nearest class that sets it; MISSING for a default factory."""
    owners = (x for x in cls.__mro__ if name in vars(x) or name in inspect.get_annotations(x))
    return vars(next(owners)).get(name, MISSING)


def _default(known: "dataclasses.Field[Any]") -> Any:
    return known.default if known.default_factory is MISSING else known.default_factory()


def _suite_of(name: str) -> EnvSuite:
    """A suite of one registered environment, under its canonical id."""
    spec, suite = load_entry(name)
    if isinstance(suite, EnvSuite):
        return suite[:]
    prefix, _, rest = spec.name.rpartition("/")
    short, dash, version = rest.rpartition("-")
    spec = dataclasses.replace(spec, name=short if dash else rest)
    return EnvSuite(prefix, spec.suite, version if dash else "", [], [spec])
