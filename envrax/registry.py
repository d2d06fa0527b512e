"""The registry: environment ids and what to build for them. Suite packages fill it at import."""

import dataclasses
import importlib
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, Self, cast

from envrax._entry_points import import_suite, installed_suites
from envrax._spec import AnyBatchedEnv, AnyEnv, Wrappers, check, copied
from envrax._spec import EnvSpec as EnvSpec
from envrax._unknown import unknown_env, unknown_suite
from envrax.env import EnvConfig


class Suite(Protocol):
    """What the registry asks of an `EnvSuite`."""

    prefix: str
    category: str
    version: str
    specs: list[EnvSpec]

    def get_name(self, name: str, version: str | None = None) -> str:
        """The canonical id of a short name."""
        ...

    def __getitem__(self, index: int) -> Self:
        """A suite of the same class with one of the environments."""
        ...


@dataclass(frozen=True)
class _Entry:
    spec: EnvSpec
    suite: Suite | None = None  # of the same class as the one registered, with this spec alone


_ENTRIES: dict[str, _Entry] = {}
_LOCK = threading.RLock()


def register(
    name: str,
    cls: type[AnyEnv] | type[AnyBatchedEnv],
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
        Canonical id, for example "BallEnv-v0" or "demo/BallEnv-v0": letters, digits, `_`, `.`,
        `+`, `|` and `-`, in parts separated by `/`.
    cls : type[JaxEnv] or type[BatchedEnv]
        The environment's class. It is built from a config alone, which goes to the parameter called
        `config`; else to the one annotated with a config class; else to the only one without a
        default; else to the only one there is. A `BatchedEnv`, for worlds of several agents, is
        built by `make_vec` as `cls(config, n_envs, *, jit_compile, final_obs, autoreset, donate)`.
    default_config : EnvConfig
        Config of an environment for which the caller gives none; a copy is kept.
    suite : str, default ""
        Category of the suite that it belongs to.
    wrappers : sequence of callable, default ()
        Wrappers that belong to the environment, the innermost first. `make` applies them before
        those of the caller.

    Raises
    ------
    ValueError
        If the name is taken, or is no legal id; or if a `BatchedEnv` comes with wrappers.
    TypeError
        If `cls` is no class of environments, is a wrapper, or cannot be built as said above; if
        `default_config` is no `EnvConfig` or cannot be copied; or if `wrappers` is no list of
        callables.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> register("Counting-v0", CountingEnv, EnvConfig(max_steps=20), wrappers=[ClipReward])
    >>> make("Counting-v0", jit_compile=False)
    ClipReward(CountingEnv(FakeConfig(max_steps=20)))
    >>> unregister("Counting-v0")
    """
    _add([_Entry(EnvSpec(name, cls, default_config, suite, wrappers))])


def register_suite(suite: Suite, *, version: str | None = None) -> None:
    """
    Register every environment of a suite under its canonical id, or none if one is refused.

    Parameters
    ----------
    suite : EnvSuite
        The suite; its category becomes the `suite` of each spec.
    version : str, optional
        Version in the ids, in place of the suite's own.

    Raises
    ------
    ValueError, TypeError
        As `register`; or if the suite has no prefix, or lists a name twice.
    """
    if isinstance(suite, type):
        raise TypeError(
            f"register_suite: expected a suite; got the class {suite.__name__}. Pass an instance: "
            f"`{suite.__name__}()`."
        )
    if not suite.prefix:
        raise ValueError(
            f"register_suite: expected a suite with a prefix; got {type(suite).__name__} without "
            'one. Set it, as in `prefix = "demo"`, or use `register` for a single environment.'
        )
    _add(_entry(suite, i, version) for i in range(len(suite.specs)))


def unregister(name: str) -> None:
    """
    Take a name off the registry.

    Raises
    ------
    ValueError
        If the name is not registered.
    """
    with _LOCK:
        find_entry(name)
        del _ENTRIES[name]


def get_spec(name: str) -> EnvSpec:
    """
    The spec registered under a name, with a copy of its config.

    Parameters
    ----------
    name : str
        A registered name. If it is not registered yet, the installed package that names its prefix
        is imported first; "package.module:prefix/Name-v0" imports that module first.

    Raises
    ------
    ValueError
        If the name is not registered; the message offers close matches.
    MissingPackageError
        If its suite needs a package that is not installed.
    """
    return copied(load_entry(name).spec)


def registered_names() -> list[str]:
    """All registered names, sorted."""
    with _LOCK:
        return sorted(_ENTRIES)


def available_suites() -> list[str]:
    """
    The prefixes of all suites, sorted: those that are registered, and those of installed packages.

    Nothing is imported. A package names its suites in the entry-point group `envrax.suites`.
    """
    return sorted(
        {name.partition("/")[0] for name in registered_names() if "/" in name}
        | set(installed_suites())
    )


def names_of_suite(prefix: str) -> list[str]:
    """
    The names registered under a prefix, in that order; an installed package of it is imported.

    Raises
    ------
    ValueError
        If there is no such suite; the message offers close matches.
    """
    if not import_suite(prefix) and not _names_under(prefix):
        raise unknown_suite(prefix, available_suites())
    return _names_under(prefix)


def load_entry(name: str) -> _Entry:
    """As `find_entry`, after the import of what registers the name."""
    if isinstance(cast(Any, name), str):
        module, _, name = name.rpartition(":")
        if module:
            importlib.import_module(module)
        prefix, slash, _ = name.partition("/")
        # Also if some names of the prefix are there: another thread may be importing the rest.
        if slash and name not in _ENTRIES:
            import_suite(prefix)
    return find_entry(name)


def find_entry(name: str) -> _Entry:
    """The registry's own record of a name; a ValueError if there is none."""
    entry = _ENTRIES.get(name) if isinstance(cast(Any, name), str) else None
    if entry is None:
        raise unknown_env(name, registered_names(), available_suites())
    return entry


def _names_under(prefix: str) -> list[str]:
    with _LOCK:
        return [name for name in _ENTRIES if name.startswith(f"{prefix}/")]


def _add(entries: Iterable[_Entry]) -> None:
    new: dict[str, _Entry] = {}
    with _LOCK:
        for entry in entries:
            name = entry.spec.name
            check(entry.spec)
            if name in new:
                raise ValueError(
                    f"register_suite: expected each environment once; got {name!r} twice in the "
                    "`specs` of the suite. Give the second one another name, or take it out."
                )
            if name in _ENTRIES:
                raise ValueError(
                    f"Environment {name!r} is already registered. Choose another name or version, "
                    "or `unregister` it first."
                )
            new[name] = dataclasses.replace(entry, spec=copied(entry.spec))
        _ENTRIES.update(new)


def _entry(suite: Suite, index: int, version: str | None) -> _Entry:
    alone = suite[index]
    [spec] = alone.specs
    if not isinstance(cast(Any, spec), EnvSpec):
        raise TypeError(
            f"register_suite: expected `specs` to hold EnvSpecs; got {spec!r}. Write "
            '`EnvSpec("Ball", BallEnv, BallConfig())`.'
        )
    alone.version = version or suite.version
    alone.specs = [dataclasses.replace(spec, suite=suite.category)]
    name = suite.get_name(spec.name, version)
    return _Entry(dataclasses.replace(alone.specs[0], name=name), alone)
