"""Importing a library, checking an object of it that a user built, and making its suite."""

import importlib
import sys
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import reduce
from types import ModuleType
from typing import Any, TypeVar, cast

from envrax._checks.packages import NOT_INSTALLED, how_to_install, version_of
from envrax.error import MissingPackageError
from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.types import PeerConfig
from envrax.registry import EnvSpec
from envrax.suite import EnvSuite

EnvT = TypeVar("EnvT", bound=PeerEnv)

# How the names of wrappers end, in all libraries, that reset or batch episodes, as envrax does.
_EPISODE_WRAPPERS = "AutoResetWrapper", "VmapWrapper"


def require(
    module: str, least: str, *parts: str, package: str = "", extra: str = "", has: str = ""
) -> ModuleType:
    """
    Import a library.

    Parameters
    ----------
    module : str
        The name that is imported.
    least : str
        The oldest version that the adapter works with.
    *parts : str
        Modules of it that the adapter imports, such as "make", which may need more packages.
    package : str, optional
        The name of the package, where it is not `module`.
    extra : str, optional
        The extra of envrax that installs it, where its name is not `module`.
    has : str, optional
        A dotted name in the module that those versions have and older ones lack. It decides in
        place of the version: forks and checkouts that are imported by this name have others.

    Raises
    ------
    MissingPackageError
        If it is not installed, or cannot be imported, or is too old.
    """
    package = package or module
    extra = extra or module
    advice = f"Install it with {how_to_install(extra)}."
    try:
        with _streams_kept():
            library = importlib.import_module(module)
            for part in parts:
                importlib.import_module(f"{module}.{part}")
    except ImportError as error:
        raise MissingPackageError(
            f"envrax.interop.{extra}: expected {package} {least} or newer; got an error: {error}. "
            f"{advice}"
        ) from error
    version = version_of(package)
    is_old = version != NOT_INSTALLED and _version_numbers(version) < _version_numbers(least)
    if has:
        is_old = reduce(lambda x, name: getattr(x, name, None), has.split("."), library) is None
        version = f"a `{module}` without `{has}`, {library.__file__}"
    if is_old:
        raise MissingPackageError(
            f"envrax.interop.{extra}: expected {package} {least} or newer; got {version}. {advice}"
        )
    return library


@contextmanager
def _streams_kept() -> Generator[None]:
    """
    What a library prints goes to stderr, and the streams are afterwards as they were before.

    JaxMARL replaces both when it is imported, in the end by `sys.__stdout__` and `sys.__stderr__`.
    Of several threads, the last one puts them back.
    """
    with _STREAMS.lock:
        if not _STREAMS.n_imports:
            _STREAMS.before = sys.stdout, sys.stderr, sys.__stdout__
            _SYS.stdout = _SYS.__stdout__ = sys.stderr
        _STREAMS.n_imports += 1
    try:
        yield
    finally:
        with _STREAMS.lock:
            _STREAMS.n_imports -= 1
            if not _STREAMS.n_imports:
                _SYS.stdout, _SYS.stderr, _SYS.__stdout__ = _STREAMS.before


class _Streams:
    """What `_streams_kept` remembers."""

    lock = threading.Lock()
    n_imports = 0
    before: Any = None


_STREAMS = _Streams()
_SYS: Any = sys  # where `__stdout__` is declared final


def innermost(library: str, env: Any, kind: type | tuple[str, ...]) -> Any:
    """
    The innermost environment of an object that a user built and gave to `wrap`.

    Parameters
    ----------
    library : str
        The module of envrax that the object was given to.
    env : Any
        The object.
    kind : type or tuple of str
        The library's base class, or methods of its environments.

    Raises
    ------
    TypeError
        If it is not an environment of the library, or is in a wrapper that ends, resets or batches
        episodes.
    """
    who = f"envrax.interop.{library}.wrap"

    def fits(x: Any) -> bool:
        if isinstance(kind, type):
            return isinstance(x, kind)
        # By class, since a wrapper may forward methods of the environment in it.
        return all(hasattr(cast(Any, type(x)), name) for name in kind)

    if not fits(env):
        what = f"of {kind.__name__}" if isinstance(kind, type) else f"with {', '.join(kind)}"
        raise TypeError(
            f"{who}: expected an environment of {library}, {what}; got {env!r}. Pass the instance, "
            "and nothing beside it."
        )
    while True:
        refuse_episode_wrappers(who, env)
        attributes = cast(dict[str, Any], vars(env))
        inner = attributes.get("_env", attributes.get("env"))
        if not fits(inner):
            return env
        env = inner


def wrap_object(
    env_class: type[EnvT], peer: Any, kind: type | tuple[str, ...], params: Any, max_steps: int
) -> EnvT:
    """The adapter around an object that a user built; its id is the class of its `innermost`."""
    layer = innermost(env_class.library, peer, kind)
    config = PeerConfig(id=type(layer).__name__, params=params, max_steps=max_steps)
    return env_class(config, peer=peer)


def refuse_episode_wrappers(who: str, env: Any) -> None:
    """Raise a TypeError for a wrapper that ends, resets or batches episodes."""
    names = [base.__name__ for base in type(env).__mro__]
    if "EpisodeWrapper" in names or any(name.endswith(_EPISODE_WRAPPERS) for name in names):
        raise TypeError(
            f"{who}: expected one environment, without auto-reset or vmap; got a "
            f"{type(env).__name__}. Pass the environment in it, with the time limit as "
            "`max_steps`, and make a batch with `VecEnv`."
        )


def key_used_twice(reason: str) -> dict[str, str]:
    """The waivers of a library that draws twice from one PRNG key."""
    return dict.fromkeys(("keys_are_used_once", "calls_share_no_key"), reason)


def suite_of(env_class: type[PeerEnv], ids: Iterable[str]) -> EnvSuite:
    """
    The suite of a library: its own ids, unchanged, under the prefix `env_class.library`.

    Parameters
    ----------
    env_class : type[PeerEnv]
        The adapter.
    ids : iterable of str
        The library's ids.
    """
    if isinstance(ids, str):
        raise TypeError(f"suite_of: expected a list of ids; got {ids!r}. Pass `[{ids!r}]`.")
    specs = [EnvSpec(id, env_class, PeerConfig(id=id)) for id in ids]
    return EnvSuite(env_class.library, env_class.library, "", [], specs)


def _version_numbers(version: str) -> list[int]:
    parts = version.split("+")[0].split(".")
    return [int("".join(filter(str.isdigit, part)) or 0) for part in parts[:3]]
