"""The registry: environment ids and their specs. Suite packages register theirs on import."""

import contextlib
import dataclasses
import re
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, Self, cast

from envrax import libraries
from envrax._checks.names import available, close_matches, did_you_mean, search
from envrax._checks.packages import how_to_install, import_whole
from envrax.config import editable_copy, same_values
from envrax.env import AnyEnv, EnvConfig, JaxEnv
from envrax.error import MissingPackageError
from envrax.wrappers.base import Wrapper

Wrappers = Sequence[Callable[[Any], AnyEnv]]


@dataclass(frozen=True)
class EnvSpec:
    """
    The class, default config and wrappers registered under an id. Compared by value.

    Attributes
    ----------
    name : str
        Canonical id, "BallEnv-v0"; within an `EnvSuite` the short name, "BallEnv".
    env_class : type[JaxEnv]
        The environment's class.
    default_config : EnvConfig
        Config that is used if the caller gives none.
    suite : str, default ""
        Category of the suite that it belongs to.
    wrappers : sequence of callable, default ()
        Wrappers that belong to the environment, the innermost first; kept as a tuple.
    """

    name: str
    env_class: type[AnyEnv]
    default_config: EnvConfig = field(hash=False)
    suite: str = ""
    wrappers: Wrappers = field(default=(), hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "wrappers", tuple(self.wrappers))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EnvSpec):
            return NotImplemented
        ours = self.name, self.env_class, self.suite, self.wrappers
        theirs = other.name, other.env_class, other.suite, other.wrappers
        return ours == theirs and same_values(self.default_config, other.default_config)


class Suite(Protocol):
    """An `EnvSuite`, which is defined in `envrax.suite`."""

    category: str
    version: str
    specs: list[EnvSpec]

    def get_name(self, name: str, version: str | None = None) -> str: ...

    def __getitem__(self, index: int) -> Self: ...


# A spec, and the suite that registered it, reduced to this environment.
_Entry = tuple[EnvSpec, Suite | None]
_ENTRIES: dict[str, _Entry] = {}
_LOCK = threading.Lock()


def register(
    name: str,
    cls: type[AnyEnv],
    default_config: EnvConfig,
    *,
    suite: str = "",
    wrappers: Wrappers = (),
) -> None:
    """
    Register an environment, so that `envrax.make(name)` builds it.

    Parameters
    ----------
    name : str
        Canonical id, for example "BallEnv-v0" or "demo/BallEnv-v0", without white space.
    cls : type[JaxEnv]
        The environment's class, built by `cls(config)`.
    default_config : EnvConfig
        Config that is used if the caller gives none. A copy is kept, of containers and arrays too.
    suite : str, default ""
        Category of the suite that it belongs to.
    wrappers : sequence of callable, default ()
        Wrappers that belong to the environment, the innermost first. `make` applies them before
        those of the caller.

    Raises
    ------
    ValueError
        If the name is taken, is empty, has white space, or is not a string.
    TypeError
        If `cls` is not such a class, or `default_config` is not an `EnvConfig`.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> register("Counting-v0", CountingEnv, EnvConfig(max_steps=20), wrappers=[ClipReward])
    >>> make("Counting-v0", jit_compile=False)
    ClipReward(CountingEnv(FakeConfig(max_steps=20)))
    >>> unregister("Counting-v0")
    """
    _add([(EnvSpec(name, cls, default_config, suite, wrappers), None)])


def register_suite(suite: Suite, *, version: str | None = None) -> None:
    """
    Register every environment of a suite under its canonical id, or none if one is refused.

    Parameters
    ----------
    suite : EnvSuite
        The suite; its category becomes the `suite` of each spec.
    version : str, optional
        Version in the ids, in place of the suite's own.
    """
    entries: list[_Entry] = []
    for i in range(len(suite.specs)):
        single = suite[i]
        single.version = version or suite.version
        single.specs = [dataclasses.replace(single.specs[0], suite=suite.category)]
        name = suite.get_name(single.specs[0].name, version)
        entries.append((dataclasses.replace(single.specs[0], name=name), single))
    _add(entries)


def unregister(name: str) -> None:
    """Remove a name from the registry; a ValueError if it is not registered."""
    with _LOCK:
        entry = _ENTRIES.pop(name, None)
    if entry is None:
        raise _unknown_env(name)


def get_spec(name: str) -> EnvSpec:
    """
    The spec registered under a name, with a copy of its config.

    Parameters
    ----------
    name : str
        A registered name. If it is unknown, the installed package that declares its prefix is
        imported first; "package.module:prefix/Name-v0" imports that module first.

    Raises
    ------
    ValueError
        If the name is not registered; the message offers close matches.
    MissingPackageError
        If its suite, or the module before ":", cannot be imported, whatever it raises. Then no
        name with its prefix stays, and none of a class that it defines.
    """
    return copied(load_entry(name)[0])


def registered_names() -> list[str]:
    """All registered names, sorted."""
    return sorted(_ENTRIES)


def available_suites() -> list[str]:
    """The prefixes of all suites, registered or of installed packages, sorted. Imports none."""
    registered = {name.partition("/")[0] for name in registered_names() if "/" in name}
    return sorted(registered | set(installed_suites()))


def installed_suites() -> dict[str, EntryPoint]:
    """The entry points of installed packages in the group `envrax.suites`, by prefix."""
    return {point.name: point for point in entry_points(group="envrax.suites")}


def find_ids(word: str) -> list[str]:
    """
    Search ids: those that contain a word or are similar to it, the closest first.

    Case, versions, `-` and `_` do not count. The ids of libraries come from a list, whether they
    are installed or not. Other installed suites are imported, if they can be.
    """
    _import_other_suites()
    return search(word, sorted({*registered_names(), *libraries.library_ids()}))


def installed_ids() -> list[str]:
    """
    The ids of all installed suites, sorted.

    Those of libraries come from a list. Other installed suites are imported, if they can be.
    """
    _import_other_suites()
    missing = libraries.missing_libraries()
    ids = [name for name in libraries.library_ids() if name.partition("/")[0] not in missing]
    return sorted({*registered_names(), *ids})


def _import_other_suites() -> None:
    """Import the suites that are no library with an adapter; one that does not load has no ids."""
    for prefix, point in installed_suites().items():
        if not point.value.startswith("envrax.interop."):
            with contextlib.suppress(MissingPackageError):
                import_suite(prefix)


def names_of_suite(prefix: str) -> list[str]:
    """The names under a prefix, in order of registration, after importing its package."""
    import_suite(prefix)
    names = [name for name in list(_ENTRIES) if name.startswith(f"{prefix}/")]
    if not names:
        suites = available_suites()
        hint = did_you_mean(close_matches(prefix, suites))
        raise ValueError(f"Unknown suite {prefix!r}.{hint} Available: {', '.join(suites)}.")
    return names


def load_entry(name: str) -> _Entry:
    """The registry's entry of a name, after importing the package that registers it."""
    if not isinstance(cast(Any, name), str):
        raise _unknown_env(name)
    if name not in _ENTRIES:
        module, _, name = name.rpartition(":")
        prefix, slash, _ = name.partition("/")
        if module:
            _import(module, prefix)
        # Also if some names of the prefix are there: another thread may be importing the rest.
        if slash and name not in _ENTRIES:
            import_suite(prefix)
    if name not in _ENTRIES:
        raise _unknown_env(name, among_suites=True)
    return _ENTRIES[name]


def copied(spec: EnvSpec) -> EnvSpec:
    """The spec with a copy of its config."""
    return dataclasses.replace(spec, default_config=editable_copy(spec.default_config))


def _add(entries: list[_Entry]) -> None:
    """Register all entries, or none if one is refused."""
    new: dict[str, _Entry] = {}
    with _LOCK:
        for spec, suite in entries:
            _check(spec)
            name = spec.name
            if name in _ENTRIES or name in new:
                raise ValueError(
                    f"Environment {name!r} is already registered. Choose another name or version, "
                    "or `unregister` it first."
                )
            new[name] = copied(spec), suite
        _ENTRIES.update(new)


def _check(spec: EnvSpec) -> None:
    """Raise a TypeError or ValueError if the spec cannot be registered."""
    name, cls, config = cast(tuple[Any, ...], (spec.name, spec.env_class, spec.default_config))
    if not isinstance(name, str) or name.split() != [name]:
        raise ValueError(
            f"register: expected a name without white space, as 'demo/Ball-v0'; got {name!r}."
        )
    if not (isinstance(cls, type) and issubclass(cls, JaxEnv)) or issubclass(cls, Wrapper):
        raise TypeError(
            f"register: expected the class of an environment for {name!r}; got {cls!r}. Pass a "
            "subclass of JaxEnv; wrappers go into `wrappers=[...]`."
        )
    if not isinstance(config, EnvConfig):
        raise TypeError(f"register: expected an EnvConfig for {name!r}; got {config!r}.")


def import_suite(prefix: str) -> None:
    """Import the module that an installed package declares for a prefix, to register its suite."""
    if point := installed_suites().get(prefix):
        # An entry point may also name an object in the module, and extras.
        _import(re.split(r"[:\[\s]", point.value)[0], prefix)


def _import(module: str, prefix: str) -> None:
    """Import the module of a suite. If that fails, its names go, and those of its classes."""
    before = set(_ENTRIES)
    try:
        import_whole(module, f"Suite {prefix!r}")
    except BaseException:
        with _LOCK:
            for name in _ENTRIES.keys() - before:
                # Python forgets a module whose import failed.
                is_lost = _ENTRIES[name][0].env_class.__module__ not in sys.modules
                if is_lost or name.startswith(f"{prefix}/"):
                    del _ENTRIES[name]
        raise


def _unknown_env(name: Any, among_suites: bool = False) -> ValueError:
    """The error for a name that is not registered; it may offer the ids of suites as well."""
    names = registered_names()
    prefix, slash, _ = str(name).partition("/")
    siblings = [known for known in names if slash and known.startswith(f"{prefix}/")]
    found = close_matches(str(name), siblings or names)
    suites = ""
    if among_suites and not (siblings and found):
        found = close_matches(name, find_ids(name))
        found = [] if name in found else found  # known, but its suite is not registered
        if not siblings:
            points = installed_suites()
            suites = _about_suites(name, found)
            names = [known for known in names if known.partition("/")[0] not in points]
    return ValueError(
        f"Unknown environment {name!r}.{did_you_mean(found)}{available(siblings or names)}{suites}"
    )


def _about_suites(name: str, found: list[str]) -> str:
    """The part of an error that says which suites are installed, and how to install others."""
    missing = libraries.missing_libraries()
    suites = available_suites()
    text = f" Suites installed: {', '.join(x for x in suites if x not in missing) or 'none'}"
    if missing:
        text += f"; not installed: {', '.join(missing)}"
    ours = name in libraries.library_ids() or name.startswith("classic/")
    prefix = (name if ours else (found or [""])[0]).partition("/")[0]
    if prefix in missing:
        text += f". Install {prefix} with {how_to_install(prefix)}"
    elif ours and prefix not in suites:
        module = "envrax.classic" if prefix == "classic" else f"envrax.interop.{prefix}"
        text += (
            f". The suite {prefix} is not registered, as where a checkout of envrax is on the "
            f"path: install it with `pip install -e .`, or import `{module}`"
        )
    if name.startswith("ALE/"):
        text += ". ALE is a simulator on the host: see the page 'EnvPool, Atari and Gymnasium'"
    return f"{text}. `python -m envrax find WORD` looks for ids."
