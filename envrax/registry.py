"""The registry: environment ids and what to build for them. Suite packages fill it at import."""

import copy
import dataclasses
import difflib
import inspect
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, cast

from envrax.env import EnvConfig, JaxEnv


@dataclass(frozen=True)
class EnvSpec:
    """
    What to build for an id.

    Attributes
    ----------
    name : str
        Canonical id, "BallEnv-v0"; within an `EnvSuite` the short name, "BallEnv".
    env_class : type[JaxEnv]
        The environment's class.
    default_config : EnvConfig
        Config of an environment for which the caller gives none.
    suite : str, default ""
        Category of the suite that it belongs to.
    """

    name: str
    env_class: type[JaxEnv[Any, Any, Any, Any]]
    default_config: EnvConfig
    suite: str = ""

    def build(self, config: EnvConfig | None = None) -> JaxEnv[Any, Any, Any, Any]:
        """The environment, with the default config or another one."""
        given = _bound(self.env_class, self.default_config if config is None else config)
        return self.env_class(*given.args, **given.kwargs)


class Suite(Protocol):
    """What the registry asks of an `EnvSuite`."""

    category: str
    version: str
    specs: list[EnvSpec]

    def get_name(self, name: str, version: str | None = None) -> str:
        """The canonical id of a short name."""
        ...


@dataclass(frozen=True)
class _Entry:
    spec: EnvSpec
    suite: Suite | None = None  # the suite that registered it, cut down to this one environment


_ENTRIES: dict[str, _Entry] = {}
_LOCK = threading.RLock()


def register(
    name: str,
    cls: type[JaxEnv[Any, Any, Any, Any]],
    default_config: EnvConfig,
    *,
    suite: str = "",
) -> None:
    """
    Register an environment, so that `envrax.make(name)` builds it.

    Parameters
    ----------
    name : str
        Canonical id, for example "BallEnv-v0".
    cls : type[JaxEnv]
        The environment's class.
    default_config : EnvConfig
        Config of an environment for which the caller gives none; a copy is kept.
    suite : str, default ""
        Category of the suite that it belongs to.

    Raises
    ------
    ValueError
        If the name is taken.
    TypeError
        If `cls` is no `JaxEnv` class, cannot be built from a config alone, or `default_config` is
        no `EnvConfig`.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> register("Counting-v0", CountingEnv, EnvConfig(max_steps=20))
    >>> make("Counting-v0", jit_compile=False).config.max_steps
    20
    >>> unregister("Counting-v0")
    """
    _add([_Entry(EnvSpec(name, cls, default_config, suite))])


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
        As `register`.
    """
    if isinstance(suite, type):
        raise TypeError(
            f"register_suite: expected a suite; got the class {suite.__name__}. Pass an instance: "
            f"`{suite.__name__}()`."
        )
    _add(_member(suite, spec, version) for spec in suite.specs)


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

    Raises
    ------
    ValueError
        If the name is not registered; the message offers close matches.
    """
    spec = find_entry(name).spec
    return dataclasses.replace(spec, default_config=copy.deepcopy(spec.default_config))


def registered_names() -> list[str]:
    """All registered names, sorted."""
    with _LOCK:
        return sorted(_ENTRIES)


def find_entry(name: str) -> _Entry:
    """The registry's own record of a name; a ValueError if there is none."""
    is_name = isinstance(cast(Any, name), str)
    entry = _ENTRIES.get(name) if is_name else None
    if entry is None:
        names = registered_names()
        lower = {known.lower(): known for known in names}
        close = [lower[match] for match in difflib.get_close_matches(str(name).lower(), lower)]
        hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
        available = ", ".join(names) or "none; import the package that registers it"
        hint = hint if is_name else " Pass a name; an environment or its class needs no `make`."
        raise ValueError(f"Unknown environment {name!r}.{hint} Available: {available}.")
    return entry


def _add(entries: Iterable[_Entry]) -> None:
    new: dict[str, _Entry] = {}
    with _LOCK:
        for entry in entries:
            spec = entry.spec
            _check(spec)
            if spec.name in _ENTRIES or spec.name in new:
                raise ValueError(
                    f"Environment {spec.name!r} is already registered. Choose another name or "
                    "version, or `unregister` it first."
                )
            own = dataclasses.replace(spec, default_config=copy.deepcopy(spec.default_config))
            new[spec.name] = dataclasses.replace(entry, spec=own)
        _ENTRIES.update(new)


def _member(suite: Suite, spec: EnvSpec, version: str | None) -> _Entry:
    if not isinstance(cast(Any, spec), EnvSpec):
        raise TypeError(
            f"register_suite: expected `specs` to hold EnvSpecs; got {spec!r}. Write "
            '`EnvSpec("Ball", BallEnv, BallConfig())`.'
        )
    alone = copy.copy(suite)
    alone.specs, alone.version = [spec], version or suite.version
    name = suite.get_name(spec.name, version)
    return _Entry(dataclasses.replace(spec, name=name, suite=suite.category), alone)


def _bound(cls: type, config: EnvConfig) -> inspect.BoundArguments:
    """The arguments of a class for its config: by that name if there is one, else the first."""
    signature = inspect.signature(cls)
    if "config" in signature.parameters:
        return signature.bind(config=config)
    return signature.bind(config)


def _check(spec: EnvSpec) -> None:
    name, cls, config = cast(tuple[Any, Any, Any], (spec.name, spec.env_class, spec.default_config))
    if not (isinstance(name, str) and name):
        raise TypeError(f"register: expected a name, a str that is not empty; got {name!r}.")
    if not (isinstance(cls, type) and issubclass(cls, JaxEnv)):
        raise TypeError(
            f"register: expected a JaxEnv class for {name!r}; got {cls!r}. Pass the class, not an "
            "instance."
        )
    if not isinstance(config, EnvConfig):
        raise TypeError(
            f"register: expected an EnvConfig for {name!r}; got {config!r}. Pass an instance of "
            "the environment's config class."
        )
    try:
        _bound(cls, config)
    except TypeError:
        raise TypeError(
            f"register: expected {cls.__name__} to be built from a config alone; got "
            f"{cls.__name__}{inspect.signature(cls)}. Register a subclass that gives the rest."
        ) from None
