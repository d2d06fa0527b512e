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


class _RecordsArguments:
    """Records which fields were passed to the constructor: these override class attributes."""

    _given: set[str]

    if not TYPE_CHECKING:  # type checkers take the parameters from the fields

        def __new__(cls, *args, **kwargs):
            self = super().__new__(cls)
            self._given = {*list(inspect.signature(cls).parameters)[: len(args)], *kwargs}
            return self


@dataclass
class EnvSuite(_RecordsArguments):
    """
    A family of environments under one prefix and version.

    A package with environments subclasses it, sets the fields as dataclass fields or plain class
    attributes, and calls `envrax.register_suite(MySuite())` at import. Iteration yields canonical
    ids. An index or a slice returns a suite of the same class. Every suite copies its configs.

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
        for item in (x for x in dataclasses.fields(self) if x.name not in self._given):
            value = _class_attribute(type(self), item.name)
            # The `__init__` of a subclass may have passed another value.
            if value is not MISSING and getattr(self, item.name) == _default(item):
                setattr(self, item.name, value)
        _copy_lists(self, self.specs)

    @property
    def envs(self) -> list[str]:
        """The short names."""
        return [spec.name for spec in self.specs]

    @property
    def n_envs(self) -> int:
        """The number of environments."""
        return len(self.specs)

    def get_name(self, name: str, version: str | None = None) -> str:
        """The canonical id, "{prefix}/{name}-{version}", without its empty parts."""
        version = version or self.version
        prefix, suffix = self.prefix and f"{self.prefix}/", version and f"-{version}"
        return f"{prefix}{name}{suffix}"

    def all_names(self, version: str | None = None) -> list[str]:
        """The canonical ids of all environments."""
        return [self.get_name(name, version) for name in self.envs]

    def check(self) -> dict[str, bool]:
        """For each required package, whether it is installed."""
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
        specs = self.specs[index] if isinstance(index, slice) else [self.specs[index]]
        return _with_specs(self, specs)


def load_suite(prefix: str) -> EnvSuite:
    """
    The suite registered under a prefix. Its package is imported first.

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
        If the suite needs a package that is not installed.
    """
    suites = EnvSet.from_names(names_of_suite(prefix)).suites
    if len(suites) == 1:
        return suites[0]
    # Several suites share the prefix, so the short names keep their versions.
    specs = [
        dataclasses.replace(spec, name=suite.get_name(spec.name).partition("/")[2])
        for suite in suites
        for spec in suite.specs
    ]
    packages = dict.fromkeys(name for suite in suites for name in suite.required_packages)
    return EnvSuite(prefix, suites[0].category if suites else "", "", [*packages], specs)


class EnvSet:
    """Several suites in a fixed order, as one list of environments."""

    def __init__(self, *suites: EnvSuite) -> None:
        self.suites = list(suites)

    @classmethod
    def from_names(cls, names: Iterable[str]) -> "EnvSet":
        """
        Build a set from canonical ids, in their order.

        Consecutive ids of the same category, prefix and version become one suite. If a suite
        registered them, it has that suite's class and `required_packages`.

        Raises
        ------
        ValueError
            If a name is not registered.
        """
        runs = itertools.groupby(map(_suite_of, names), key=lambda suite: suite[:0])
        return cls(
            *(_with_specs(first, (x for one in run for x in one.specs)) for first, run in runs)
        )

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
            If any is missing; the message names each such suite and package.
        """
        checks = ((suite, suite.check()) for suite in self.suites)
        lacking = [
            f"{type(suite).__name__} (prefix {suite.prefix!r}, category {suite.category!r}) lacks "
            + ", ".join(name for name, installed in check.items() if not installed)
            for suite, check in checks
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


def _with_specs(suite: SuiteT, specs: Iterable[EnvSpec]) -> SuiteT:
    """The same suite with other specs."""
    other = copy.copy(suite)
    _copy_lists(other, specs)
    return other


def _copy_lists(suite: EnvSuite, specs: Iterable[EnvSpec]) -> None:
    """Give a suite its own copies of the lists and configs."""
    suite.required_packages = list(suite.required_packages)
    suite.specs = [copied(spec) for spec in specs]


def _class_attribute(cls: type, name: str) -> Any:
    """The value of a field in the first class of the MRO that sets it; MISSING for a factory."""
    owners = (x for x in cls.__mro__ if name in vars(x) or name in inspect.get_annotations(x))
    return vars(next(owners)).get(name, MISSING)


def _default(item: "dataclasses.Field[Any]") -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()


def _suite_of(name: str) -> EnvSuite:
    """A suite of one registered environment, under its canonical id."""
    spec, suite = load_entry(name)
    if isinstance(suite, EnvSuite):
        return suite[:]
    prefix, _, rest = spec.name.rpartition("/")
    short, dash, version = rest.rpartition("-")
    spec = dataclasses.replace(spec, name=short if dash else rest)
    return EnvSuite(prefix, spec.suite, version if dash else "", [], [spec])
