"""Suites: what a package of environments ships, and sets of suites."""

import copy
import dataclasses
import importlib.util
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from envrax.error import MissingPackageError
from envrax.registry import EnvSpec, find_entry, get_spec

SuiteT = TypeVar("SuiteT", bound="EnvSuite")


@dataclass
class EnvSuite:
    """
    A family of environments under one prefix and version.

    A suite package subclasses it, pins the fields as dataclass fields or plain class attributes,
    and calls `envrax.register_suite(MySuite())` when it is imported. Iteration gives canonical ids;
    an index or a slice gives a suite of the same class.

    Attributes
    ----------
    prefix : str
        First part of the ids, "demo" in "demo/Ball-v0".
    category : str
        What kind of environments these are.
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
        # A subclass that is no dataclass itself pins a field by a plain class attribute, of which
        # the inherited `__init__` knows nothing.
        for known in dataclasses.fields(self):
            value = getattr(self, known.name)
            default = _default(known)
            pinned = getattr(type(self), known.name, default)
            if pinned is not default and value == default:
                setattr(self, known.name, copy.copy(pinned))

    @property
    def envs(self) -> list[str]:
        """The short names."""
        return [spec.name for spec in self.specs]

    @property
    def n_envs(self) -> int:
        """The number of environments."""
        return len(self.specs)

    def get_name(self, name: str, version: str | None = None) -> str:
        """The canonical id of a short name: "{prefix}/{name}-{version}", without what is empty."""
        version = version or self.version
        prefix, suffix = self.prefix and f"{self.prefix}/", version and f"-{version}"
        return f"{prefix}{name}{suffix}"

    def all_names(self, version: str | None = None) -> list[str]:
        """The canonical ids of all environments."""
        return [self.get_name(name, version) for name in self.envs]

    def check(self) -> dict[str, bool]:
        """Which of the required packages are installed."""
        return {package: _installed(package) for package in self.required_packages}

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


class EnvSet:
    """
    Several suites as one list of environments.

    Parameters
    ----------
    *suites : EnvSuite
        The suites, in order.
    """

    def __init__(self, *suites: EnvSuite) -> None:
        for suite in suites:
            if not isinstance(suite, EnvSuite):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"EnvSet: expected EnvSuites; got {suite!r}.")
        self.suites = list(suites)

    @classmethod
    def from_names(cls, names: Iterable[str]) -> "EnvSet":
        """
        Rebuild a set from canonical ids, in their order.

        Neighbours of one category, prefix and version become one suite. Ids that a suite registered
        bring its class and its `required_packages` along.

        Raises
        ------
        ValueError
            If a name is not registered.
        """
        members = [_member(name) for name in names]
        runs = itertools.groupby(members, key=lambda suite: _part(suite, []))
        return cls(*(_part(head, (spec for m in run for spec in m.specs)) for head, run in runs))

    @property
    def n_envs(self) -> int:
        """The number of environments."""
        return len(self.all_names())

    def all_names(self, version: str | None = None) -> list[str]:
        """The canonical ids of all environments, suite by suite."""
        return [name for suite in self.suites for name in suite.all_names(version)]

    def env_categories(self) -> dict[str, list[str]]:
        """The canonical ids of each category."""
        categories: dict[str, list[str]] = {}
        for suite in self.suites:
            categories.setdefault(suite.category, []).extend(suite.all_names())
        return categories

    def verify_packages(self) -> None:
        """
        Make sure that the packages that the suites need are installed.

        Raises
        ------
        MissingPackageError
            If not; it names every suite and every missing package.
        """
        missing = [
            (suite, [package for package, installed in suite.check().items() if not installed])
            for suite in self.suites
            if not suite.is_available()
        ]
        if missing:
            each = "; ".join(
                f"{type(suite).__name__} (prefix {suite.prefix!r}, category {suite.category!r}) "
                f"lacks {', '.join(packages)}"
                for suite, packages in missing
            )
            names = dict.fromkeys(name for _, packages in missing for name in packages)
            raise MissingPackageError(
                f"Expected the packages of every suite to be installed; got: {each}. "
                f"Install {', '.join(names)}."
            )

    def __len__(self) -> int:
        return self.n_envs

    def __iter__(self) -> Iterator[str]:
        return iter(self.all_names())

    def __add__(self, other: "EnvSet | EnvSuite") -> "EnvSet":
        added = other.suites if isinstance(other, EnvSet) else [other]
        return EnvSet(*self.suites, *added)

    def __repr__(self) -> str:
        return f"EnvSet({', '.join(f'{s.category or s.prefix}: {len(s)}' for s in self.suites)})"


def _part(suite: SuiteT, specs: Iterable[EnvSpec]) -> SuiteT:
    """The same suite with other specs."""
    part = copy.copy(suite)
    part.required_packages = list(suite.required_packages)
    part.specs = list(specs)
    return part


def _default(known: "dataclasses.Field[Any]") -> Any:
    factory: Any = known.default_factory
    return known.default if factory is dataclasses.MISSING else factory()


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # the parent of a dotted name is missing, or is no package
        return False


def _member(name: str) -> EnvSuite:
    """A suite of one, that gives the registered environment its canonical id back."""
    suite, spec = find_entry(name).suite, get_spec(name)
    if isinstance(suite, EnvSuite):
        [short] = suite.envs
        return _part(suite, [dataclasses.replace(spec, name=short)])
    prefix, _, rest = name.rpartition("/")
    short, dash, version = rest.rpartition("-")
    short, version = (short, version) if dash else (rest, "")
    return EnvSuite(prefix, spec.suite, version, [], [dataclasses.replace(spec, name=short)])
