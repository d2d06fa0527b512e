"""Compiled functions, the compile cache, and the warm-up that fills both."""

import os
import threading
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from envrax._keys import example_keys
from envrax._value import take_snapshot

R = TypeVar("R")
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
    How an environment compiles itself.

    Attributes
    ----------
    cache_dir : path-like or None
        The persistent compile cache of its warm-up; see `compile_cache`.
    """

    cache_dir: CacheDir = DEFAULT_CACHE_DIR


class Compiled:
    """
    A function under `jax.jit`, shared with all that equal it by value, with strongly typed outputs.

    The program is of the function as it is on its first call, and of all that it closes over, such
    as an environment: whoever calls one that is equal by then gets the same program. It closes over
    a private copy, so that later edits reach nobody. A function with side effects, or one that has
    no value to compare or cannot be copied, gets a program of its own, and no copy. A weakly typed
    output, fed back in, would be another signature and so a second program. Pickling and copying
    leave the programs behind.

    Parameters
    ----------
    function : callable
        A pure function of pytrees.
    donate : tuple of int
        Positions of arguments whose buffers the outputs take over.
    """

    def __init__(self, function: Callable[..., Any], donate: tuple[int, ...] = ()) -> None:
        self._function, self._donate = function, donate
        self._program: _Program | None = None

    def __call__(self, *args: Any) -> Any:
        program = self._program
        if program is None:
            program = self._program = _program(self._function, self._donate, args)
        return program.call(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        return Compiled, (self._function, self._donate)


class _Program:
    """A jitted function that can be referred to weakly."""

    def __init__(self, function: Callable[..., Any], donate: tuple[int, ...]) -> None:
        self.call: Any = jax.jit(partial(_strong_outputs, function), donate_argnums=donate)


# A program lives as long as someone who calls it.
_PROGRAMS: WeakValueDictionary[Any, _Program] = WeakValueDictionary()
_PROGRAMS_LOCK = threading.RLock()


def _program(function: Callable[..., Any], donate: tuple[int, ...], args: Any) -> _Program:
    """The program that everybody who equals `function` shares, or one of its own."""
    snapshot = take_snapshot(function)
    if snapshot is not None:
        key = snapshot.value, donate
        with _PROGRAMS_LOCK:
            program = _PROGRAMS.get(key)
        if program is None:
            program = _Program(snapshot.copy, donate)
            if program.call.trace(*args).jaxpr.effects:
                return _Program(function, donate)
            with _PROGRAMS_LOCK:
                program = _PROGRAMS.setdefault(key, program)
        return program
    return _Program(function, donate)


def strong(tree: R) -> R:
    """The same pytree with every leaf a strongly typed JAX array."""
    return jax.tree.map(_strong_leaf, tree)


def warm_up(
    reset: Callable[..., Any],
    step: Callable[..., Any],
    sample: Callable[..., Any],
    cache_dir: CacheDir,
    compiled: Callable[[], Any] = lambda: None,
) -> None:
    """
    Run `reset` and `step` once for each kind of PRNG key, so that real calls compile nothing.

    Parameters
    ----------
    reset, step : callable
        The functions as the user will call them.
    sample : callable
        From a PRNG key to what `step` takes; it is only traced.
    cache_dir : path-like or None
        See `compile_cache`.
    compiled : callable
        Called after each program, of which there are two for each kind of key.
    """
    with compile_cache(cache_dir):
        keys = example_keys()
        like = jax.eval_shape(sample, keys[0])
        action = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), like)
        for rng in keys:
            _, state = reset(rng)
            compiled()
            jax.block_until_ready(step(state, action))
            compiled()


@contextmanager
def compile_cache(cache_dir: CacheDir) -> Generator[None]:
    """
    Put JAX's persistent compilation cache in force, and restore every setting afterwards.

    Parameters
    ----------
    cache_dir : path-like or None
        Where compiled programs are read and written, a local path or a URL. `DEFAULT_CACHE_DIR`
        gives way to a cache that the user set up in JAX. None neither reads nor writes any cache.
    """
    with _SCOPE:
        settings = _settings(cache_dir)
        before = {name: getattr(_CONFIG, name) for name in settings}
        try:
            _apply(settings)
            yield
        finally:
            _apply(before)


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
        # XLA's caches of its own can be neither remote nor read-only, and before JAX 0.12 their
        # path is part of the keys of ours, so that nothing is found in a directory that moved.
        settings["jax_persistent_cache_enable_xla_caches"] = "none"
    return settings


def _directory(cache_dir: CacheDir) -> str | None:
    """The directory, made if need be, or the URL; None for no cache."""
    if isinstance(cache_dir, _DefaultCacheDir):
        if not _CONFIG.jax_enable_compilation_cache:
            return None
        cache_dir = _CONFIG.jax_compilation_cache_dir or cache_dir
    if cache_dir is None:
        return None
    try:
        path = os.fspath(cache_dir)
        if "://" not in path:
            os.makedirs(path, exist_ok=True)
    except OSError as error:
        warnings.warn(
            f"compile cache: expected a directory that can be made at {cache_dir!r}; got {error}. "
            "Compiling without a cache: pass another `cache_dir`, or None.",
            stacklevel=2,
        )
        return None
    return path


def _strong_outputs(function: Callable[..., Any], *args: Any) -> Any:
    return strong(function(*args))


def _strong_leaf(x: Any) -> jax.Array:
    x = jnp.asarray(x)
    weak = cast(bool, getattr(x, "weak_type", False))  # typed keys have no such attribute
    return jax.lax.convert_element_type(x, x.dtype) if weak else x
