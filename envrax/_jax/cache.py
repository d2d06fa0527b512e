"""JAX's persistent compilation cache, enabled for a block of code."""

import logging
import os
import threading
import time
import warnings
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache

LOGGER = logging.getLogger("envrax")
_CONFIG: Any = jax.config  # its options are not declared
CacheDir = str | os.PathLike[str] | None


@dataclass(frozen=True)
class _DefaultCacheDir(os.PathLike[str]):
    """`$ENVRAX_CACHE_DIR`, else `.jax_cache` in the working directory, looked up when used."""

    def __fspath__(self) -> str:
        return os.environ.get("ENVRAX_CACHE_DIR") or os.path.join(os.getcwd(), ".jax_cache")

    def __repr__(self) -> str:
        return "DEFAULT_CACHE_DIR"


DEFAULT_CACHE_DIR: os.PathLike[str] = _DefaultCacheDir()

# JAX has no scoped form of these options: they are set for the process, one scope at a time.
_SCOPE = threading.RLock()


@dataclass(frozen=True)
class Compilation:
    """
    Options of the compilation of an environment.

    Attributes
    ----------
    cache_dir : path-like or None
        The persistent compile cache; see `compile_cache`.
    donate : bool
        Whether a step takes over the buffers of the state it is given.
    """

    cache_dir: CacheDir = DEFAULT_CACHE_DIR
    donate: bool = False


@contextmanager
def compile_cache(cache_dir: CacheDir, what: str = "", of: Any = None) -> Generator[None]:
    """
    Enable JAX's persistent compilation cache, and restore every setting afterwards.

    The logger `envrax` says at INFO what is compiled, and when it is done.

    Parameters
    ----------
    cache_dir : path-like or None
        Where compiled programs are read and written, a local path or a URL. `DEFAULT_CACHE_DIR`
        uses the cache that JAX is configured with, if there is one. None disables the cache.
    what, of : str, object
        What is compiled, and of which environment or batch, for the logger.
    """
    is_told = LOGGER.isEnabledFor(logging.INFO)
    with _SCOPE, _logged(what, of) if is_told else nullcontext():
        settings, before = _enter(cache_dir)
        try:
            yield
        finally:
            _exit(settings, before)


@contextmanager
def _logged(what: str, of: Any) -> Generator[None]:
    what = f"{what.strip('_')} of {getattr(of, 'name', 'a fleet')}"
    seen = _seen()
    before, begin = seen.copy(), time.perf_counter()
    LOGGER.info("compiling %s", what)
    yield
    hits, misses = (seen[x] - before[x] for x in ("cache_hits", "cache_misses"))
    seconds = time.perf_counter() - begin
    cached = f"{hits} of {hits + misses} programs from the cache"
    LOGGER.info("compiled %s in %.1f s, %s", what, seconds, cached)


@cache
def _seen() -> Counter[str]:
    """Events of JAX, counted from the first call on by the last part of their names."""
    counts = Counter[str]()

    def count(event: str, **_: Any) -> None:
        counts[event.rpartition("/")[2]] += 1

    jax.monitoring.register_event_listener(count)
    return counts


_BUILDING = threading.Lock()
_BEFORE_BUILD: dict[str, Any] = {}  # JAX's settings before the build that goes on


@contextmanager
def compile_cache_of_build(cache_dir: CacheDir) -> Generator[None]:
    """
    `compile_cache` for the code that builds an environment, which may wait for other threads.

    So no lock is held meanwhile: other threads compile through their own caches. An environment
    that another thread begins to build meanwhile, or this one within, is built without this.
    """
    if not _BUILDING.acquire(blocking=False):
        yield
        return
    try:
        with _SCOPE:
            settings, before = _enter(cache_dir)
            _BEFORE_BUILD.update(before)
        try:
            yield
        finally:
            with _SCOPE:
                _BEFORE_BUILD.clear()
                _exit(settings, before)
    finally:
        _BUILDING.release()


def _enter(cache_dir: CacheDir) -> tuple[dict[str, Any], dict[str, Any]]:
    """Apply the settings of a cache; what they are, and what they were before."""
    settings = _settings(cache_dir)
    before = {name: getattr(_CONFIG, name) for name in settings}
    _apply(settings)
    return settings, before


def _exit(settings: dict[str, Any], before: dict[str, Any]) -> None:
    # What the user has set meanwhile, in another thread, stays.
    _apply({x: before[x] for x in before if getattr(_CONFIG, x) == settings[x]})


def _apply(settings: dict[str, Any]) -> None:
    for name, value in settings.items():
        jax.config.update(name, value)
    reset_cache()  # else the directory that was used first in the process stays in use


def _settings(cache_dir: CacheDir) -> dict[str, Any]:
    path = _directory(cache_dir)
    if path is None:
        return {"jax_enable_compilation_cache": False}
    settings = {
        "jax_enable_compilation_cache": True,
        "jax_compilation_cache_dir": path,
        # JAX's own thresholds leave out every program that compiles in under a second.
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
        "jax_raise_persistent_cache_errors": False,
    }
    if path != _CONFIG.jax_compilation_cache_dir:
        # XLA's own caches can be neither remote nor read-only, and before JAX 0.12 their path is
        # part of our cache keys, so that a directory that was moved would have no hits.
        settings["jax_persistent_cache_enable_xla_caches"] = "none"
    return settings


def _of_user(name: str) -> Any:
    return _BEFORE_BUILD.get(name, getattr(_CONFIG, name))


def _directory(cache_dir: CacheDir) -> str | None:
    """The directory, created if needed, or the URL; None for no cache."""
    if isinstance(cache_dir, _DefaultCacheDir):
        # Not the directory of an environment that is built meanwhile.
        if not _of_user("jax_enable_compilation_cache"):
            return None
        cache_dir = _of_user("jax_compilation_cache_dir") or cache_dir
    if cache_dir is None:
        return None
    try:
        path: str = os.path.expanduser(os.fspath(cache_dir))
        if path.startswith("file://"):
            path = url2pathname(urlsplit(path).path)
        if "://" not in path and not os.path.isdir(path):
            os.makedirs(path, exist_ok=True)
            if isinstance(cache_dir, _DefaultCacheDir):  # git need not be told of it
                Path(path, ".gitignore").write_text("*\n", "utf-8")
    except OSError as error:
        warnings.warn(
            f"compile cache: expected a directory that can be made at {cache_dir!r}; got {error}. "
            "Compiling without a cache: pass another `cache_dir`, or None.",
            stacklevel=2,
        )
        return None
    return path
