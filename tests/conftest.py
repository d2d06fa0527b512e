"""Strict flags, an isolated compile cache, the tiers, and fixtures that count compilations."""

from __future__ import annotations

import gc
import importlib
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

# Most of the time of a test is compilation, and most of that optimises code that runs once. These
# flags save four fifths of it. With `XLA_FLAGS` set, as in `.ci/run`, the tests run with those
# instead. XLA stops the process at a flag that it does not know.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0"
    + " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    * version("jaxlib").startswith(("0.9.", "0.10."))
    + " --xla_cpu_opt_preset=CPU_OPT_PRESET_FAST_COMPILE"
    * version("jaxlib").startswith(("0.10.", "0.12.")),
)

import jax
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache

import envrax

# Fired for every program handed to the backend, also when the persistent cache then serves it.
COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"
HIT_EVENT = "/jax/compilation_cache/cache_hits"
MISS_EVENT = "/jax/compilation_cache/cache_misses"
# Folders of tests that need other libraries; each is a marker as well.
TIERS = ("interop", "apart", "trainers", "jaxrl", "nightly", "published")
# Of the cache that the tests of a run share.
PROGRAMS = {
    "jax_persistent_cache_min_compile_time_secs": 0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
    "jax_persistent_cache_enable_xla_caches": "none",
}


@dataclass
class Compilations:
    """Programs compiled inside the `with` block, and hits and misses of the persistent cache."""

    count: int = 0
    hits: int = 0
    misses: int = 0


@contextmanager
def count_compilations() -> Iterator[Compilations]:
    counted = Compilations()

    def listen(event: str, *_: float, **__: str | int) -> None:
        counted.count += event == COMPILE_EVENT
        counted.hits += event == HIT_EVENT
        counted.misses += event == MISS_EVENT

    jax.monitoring.register_event_listener(listen)
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield counted
    finally:
        jax.monitoring.unregister_event_listener(listen)
        jax.monitoring.unregister_event_duration_listener(listen)


@pytest.fixture
def compile_counter() -> Callable[[], AbstractContextManager[Compilations]]:
    """`with compile_counter() as compiled: ...`, then `compiled.count`, `hits` and `misses`."""
    return count_compilations


@pytest.fixture
def clean_registry() -> Iterator[None]:
    """Leave the registry as it was found, with the suite that an unknown name would import."""
    importlib.import_module("envrax.classic")
    before = set(envrax.registered_names())
    yield
    for name in set(envrax.registered_names()) - before:
        envrax.unregister(name)


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., str]:
    """
    `run_python(code, **environment)`: run code in a new Python process and return its output.

    A test that takes it is an integration test: importing JAX alone takes a second.
    """

    def run(code: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, map(str, sys.path))),
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every", type=int, default=1, help="run every n-th test of a file in `--of`")
    parser.addoption("--of", action="append", default=[], help="a folder of tests, or a file")


def pytest_configure() -> None:
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    # `programs` sets it; a cache of the developer may hold programs of other flags.
    jax.config.update("jax_compilation_cache_dir", None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the folder of a tier that `-m` does not name: its files import the libraries."""
    tier = collection_path.parent.name
    if tier not in TIERS or not collection_path.name.startswith("test_"):
        return None
    asked = re.sub(rf"not\s+{tier}", "", config.getoption("markexpr"))
    return None if tier in asked else True


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Mark tests by their fixture and folder, have `-m` select, and take the sample."""
    for item in items:
        tier = item.path.parent.name
        if "run_python" in getattr(item, "fixturenames", ()):
            item.add_marker("integration")
        if tier in TIERS:
            item.add_marker(tier)
            if tier != "trainers":
                item.add_marker(pytest.mark.filterwarnings("ignore"))  # the libraries warn
    yield
    if config.option.every > 1 and not config.option.of:
        raise pytest.UsageError("--every samples the folders of --of: name one")
    folders = [config.rootpath / folder for folder in config.option.of]
    chosen = [
        item
        for path, tests in groupby([*items], key=lambda item: item.path)
        for place, item in enumerate(tests)
        if place % config.option.every == 0 or not any(map(path.is_relative_to, folders))
    ]
    left_out = {*items} - {*chosen}
    config.hook.pytest_deselected(items=[*left_out])
    items[:] = chosen


def pytest_collection_finish() -> None:
    """Have the garbage collector skip what was imported and run less often: 6 % of the time."""
    gc.freeze()
    gc.set_threshold(50_000)


@pytest.fixture(autouse=True)
def empty_caches(request: pytest.FixtureRequest) -> None:
    """For `make check`: pytest-testmon sees what Python runs, so each test has empty caches."""
    if request.config.getoption("testmon", default=False):
        jax.clear_caches()
        for name in [name for name in sys.modules if name.startswith("envrax.")]:
            for value in [*vars(sys.modules[name]).values()]:
                if hasattr(type(value), "cache_clear"):  # of `functools.cache`
                    value.cache_clear()


@pytest.fixture(scope="session", autouse=True)
def isolated_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the default compile cache, here and in child processes, out of the working tree."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENVRAX_CACHE_DIR", str(tmp_path_factory.mktemp("compile_cache")))
        patch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def programs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """
    Have all tests of a run share what they compile: a fifth of the programs are the same.

    With `ENVRAX_TEST_PROGRAMS`, a folder, several runs share them too: see `.ci/cosmic-ray.toml`.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = os.environ.get("ENVRAX_TEST_PROGRAMS", str(folder / "programs"))
    for name, value in PROGRAMS.items():
        jax.config.update(name, value)
    jax.config.update("jax_compilation_cache_dir", folder)
    reset_cache()
