"""The compile cache: whose directory is used, when, and that a broken one costs a warning only."""

import os
import pickle
import shutil
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import ScriptEnv
from helpers import jax_flag
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from envrax import DEFAULT_CACHE_DIR, JitWrapper
from envrax._jax.cache import compile_cache, compile_cache_of_build

REWARDS = (1.0, 2.0)


class QuickEnv(ScriptEnv):
    """Compiles in a millisecond, and lets a test look on while it is compiled."""

    def __init__(
        self, config: Any = None, while_stepping: Callable[[], None] | None = None
    ) -> None:
        super().__init__(rewards=REWARDS)
        self.while_stepping = while_stepping

    def step(self, state: Any, action: Any) -> tuple[Any, ...]:
        if self.while_stepping:
            self.while_stepping()
        return super().step(state, action)


def warm(cache_dir: Any = DEFAULT_CACHE_DIR, while_stepping: Any = None) -> None:
    """Compile a new env, one that no program in memory answers for, and see that it works."""
    env = JitWrapper(QuickEnv(None, while_stepping), cache_dir)
    _, state = env.reset(jax.random.key(0))
    assert float(env.step(state, 1)[2]) == REWARDS[0]


def entries(directory: Path) -> set[str]:
    """The names of the programs in a cache."""
    return {path.name for path in directory.glob("*-cache")}


@contextmanager
def settings(**values: Any) -> Generator[None]:
    """Values of `jax.config`, as a user sets them."""
    with ExitStack() as stack:
        for name, value in values.items():
            stack.enter_context(jax_flag(name, value))
        yield


@pytest.fixture(autouse=True)
def no_cache_yet() -> Generator[None]:
    """The settings of JAX as it comes, without the cache that the other tests share."""
    names = ("min_compile_time_secs", "min_entry_size_bytes", "enable_xla_caches")
    defaults = dict(zip(names, (1.0, 0, "xla_gpu_per_fusion_autotune_cache_dir"), strict=True))
    defaults = {f"jax_persistent_cache_{name}": value for name, value in defaults.items()}
    with settings(jax_compilation_cache_dir=None, **defaults):
        reset_cache()
        yield
    reset_cache()


@pytest.fixture
def default_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory that `DEFAULT_CACHE_DIR` stands for."""
    monkeypatch.setenv("ENVRAX_CACHE_DIR", str(tmp_path / "default"))
    return tmp_path / "default"


def test_a_second_compilation_is_read_and_not_compiled(
    default_dir: Path, compile_counter: Any
) -> None:
    """The default directory ignores itself for git, as that of pytest does."""
    with compile_counter() as first:
        warm()
    assert first.misses == len(entries(default_dir)) > 0
    assert (default_dir / ".gitignore").read_text() == "*\n"
    with compile_counter() as second:
        JitWrapper(QuickEnv())
    assert (second.hits, second.misses) == (second.count, 0)


def test_default_is_resolved_when_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, default_dir: Path
) -> None:
    monkeypatch.setenv("ENVRAX_CACHE_DIR", str(tmp_path / "later"))
    warm(pickle.loads(pickle.dumps(DEFAULT_CACHE_DIR)))
    assert entries(tmp_path / "later") and not default_dir.exists()
    monkeypatch.delenv("ENVRAX_CACHE_DIR")
    monkeypatch.chdir(tmp_path)
    assert os.fspath(DEFAULT_CACHE_DIR) == str(tmp_path / ".jax_cache")
    assert repr(DEFAULT_CACHE_DIR) == "DEFAULT_CACHE_DIR"


def test_a_lazy_first_call_follows_the_users_own_settings(default_dir: Path) -> None:
    lazy = JitWrapper(QuickEnv(), pre_warm=False)
    lazy.step(lazy.reset(jax.random.key(0))[1], 1)
    assert not default_dir.exists()


@pytest.mark.parametrize(
    ("explicit", "enabled", "used"),
    [(False, True, ["users"]), (False, False, []), (True, True, ["ours"]), (True, False, ["ours"])],
)
def test_explicit_wins_over_the_users_own_and_that_over_the_default(
    explicit: bool, enabled: bool, used: list[str], tmp_path: Path, default_dir: Path
) -> None:
    users = str(tmp_path / "users")
    with settings(jax_compilation_cache_dir=users, jax_enable_compilation_cache=enabled):
        warm(tmp_path / "ours" if explicit else DEFAULT_CACHE_DIR)
    assert [path.name for path in tmp_path.iterdir()] == used
    assert all(entries(tmp_path / name) for name in used)
    assert not (tmp_path / "ours" / ".gitignore").exists()


@pytest.mark.parametrize("users_own", [True, False])
def test_none_neither_reads_nor_writes(
    users_own: bool, tmp_path: Path, default_dir: Path, compile_counter: Any
) -> None:
    path = str(tmp_path / "users") if users_own else None
    with settings(jax_compilation_cache_dir=path, jax_persistent_cache_min_compile_time_secs=0.0):
        warm()
        before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
        with compile_counter() as events:
            JitWrapper(QuickEnv(), None)
        assert events.count > 0
        assert (events.hits, events.misses) == (0, 0)
        assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before
        with compile_counter() as events:  # and the next call has its cache again
            warm()
    assert events.hits


def test_each_program_goes_to_the_directory_of_its_compilation(
    tmp_path: Path, compile_counter: Any
) -> None:
    """Those of a later call elsewhere too, and what the user compiles before and after."""
    users, one, two = (tmp_path / name for name in ("users", "one", "two"))
    with settings(
        jax_compilation_cache_dir=str(users), jax_persistent_cache_min_compile_time_secs=0.0
    ):
        jax.jit(lambda x: x * 3 + 1)(np.float32(1))
        before = entries(users)
        warm(one)
        warm(two)
        assert before and entries(users) == before
        assert entries(one) == entries(two)  # each has all it needs
        jax.jit(lambda x: x * 5 + 2)(np.float32(1))
        assert len(entries(users)) > len(before)
        with compile_counter() as events:
            JitWrapper(QuickEnv(), one)
        assert events.hits and not events.misses


@pytest.mark.parametrize("cache_dir", ["explicit", DEFAULT_CACHE_DIR, None])
def test_every_setting_is_restored(cache_dir: Any, tmp_path: Path, default_dir: Path) -> None:
    cache_dir = tmp_path / cache_dir if isinstance(cache_dir, str) else cache_dir
    users = {
        "jax_compilation_cache_dir": str(tmp_path / "users"),
        "jax_persistent_cache_min_compile_time_secs": 7.0,
        "jax_persistent_cache_min_entry_size_bytes": 77,
        "jax_raise_persistent_cache_errors": True,
        "jax_persistent_cache_enable_xla_caches": "xla_gpu_kernel_cache_file",
    }
    with settings(**users):
        before = dict(jax.config.values)
        with compile_cache(cache_dir):
            assert dict(jax.config.values) != before
        assert dict(jax.config.values) == before
        with pytest.raises(ZeroDivisionError), compile_cache(cache_dir):
            raise ZeroDivisionError
        assert dict(jax.config.values) == before
        # What the user sets meanwhile, in another thread, stays.
        later = str(tmp_path / "later")
        with compile_cache(tmp_path / "ours"), ThreadPoolExecutor(1) as pool:
            pool.submit(jax.config.update, "jax_compilation_cache_dir", later).result()
        assert dict(jax.config.values) == {**before, "jax_compilation_cache_dir": later}


@pytest.mark.parametrize("source", ["argument", "environment", "users"])
def test_a_url_passes_unchanged(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "gs://bucket/some//folder"
    monkeypatch.chdir(tmp_path)
    if source == "environment":
        monkeypatch.setenv("ENVRAX_CACHE_DIR", url)
    users = url if source == "users" else None
    ours = url if source == "argument" else DEFAULT_CACHE_DIR
    with settings(jax_compilation_cache_dir=users), compile_cache(ours):
        assert jax.config.jax_compilation_cache_dir == url
    assert not list(tmp_path.iterdir())


# A directory that cannot be used costs a warning, never the run: `warm` sees that the env works.


def test_a_file_where_the_directory_should_be(default_dir: Path) -> None:
    default_dir.write_text("I am a file.")
    for cache_dir in (DEFAULT_CACHE_DIR, str(default_dir / "below")):
        with pytest.warns(UserWarning, match="compile cache"):
            warm(cache_dir)
    assert default_dir.read_text() == "I am a file."


def test_a_working_directory_that_vanished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENVRAX_CACHE_DIR")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.warns(UserWarning, match="DEFAULT_CACHE_DIR"):
        warm()


def test_a_directory_that_vanishes_while_compiling(tmp_path: Path) -> None:
    warned = pytest.warns(UserWarning, match="persistent compilation cache")
    with warned, compile_cache(tmp_path / "cache"):
        jax.jit(lambda x: x * 7 + 5)(np.float32(1))
        shutil.rmtree(tmp_path / "cache")
        jax.jit(lambda x: x * 7 + 6)(np.float32(1))


@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b[:-9], lambda b: b"no program" * 99])
def test_corrupt_entries(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    warm(tmp_path)
    for path in tmp_path.glob("*-cache"):
        path.write_bytes(damage(path.read_bytes()))
    raises = settings(jax_raise_persistent_cache_errors=True)  # if the user asks JAX to
    warned = pytest.warns(UserWarning, match="persistent compilation cache")
    with raises, warned:
        warm(tmp_path)


def test_a_directory_that_takes_no_file(run_python: Any) -> None:
    """Permissions do not bind root; a limit on the size of files binds everyone."""
    printed = run_python(
        """
        import resource, warnings
        from _jax.test_cache import warm
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warm("full")
        print(*(w.message for w in caught), sep="\\n")
        """
    )
    assert "Error writing persistent compilation cache entry" in printed


@pytest.mark.parametrize("spelled", ["~/cache", "file://{home}/cache"])
def test_home_and_file_urls(spelled: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    warm(spelled.format(home=tmp_path))
    assert any((tmp_path / "cache").iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_users_threads_may_compile_meanwhile(tmp_path: Path) -> None:
    stop = threading.Event()

    def work(seed: int) -> None:
        k = seed
        while not stop.is_set():
            k += 1
            assert float(jax.jit(lambda x, k=k: x * k + 1)(jnp.float32(2))) == 2.0 * k + 1

    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(work, seed) for seed in (0, 10**5)]
        before = dict(jax.config.values)
        try:
            for directory in (tmp_path / "one", tmp_path / "two", None):
                warm(directory)
        finally:
            stop.set()
        assert dict(jax.config.values) == before
    assert [thread.result() for thread in done] == [None, None]


def test_a_logger_tells_what_compiles(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "envrax")
    for hits in (0, 1):
        JitWrapper(QuickEnv(), pre_warm=False, cache_dir=tmp_path).compile()
        first, second, *_ = caplog.messages
        assert first == "compiling checked_reset of QuickEnv"
        assert second.startswith("compiled checked_reset of QuickEnv in ")
        assert second.endswith(f", {hits} of 1 programs from the cache")
        caplog.clear()


def test_code_that_builds_may_wait_for_a_thread_that_compiles(tmp_path: Path) -> None:
    """Each compiles through its own cache, and all settings are restored, whichever ends first."""

    def directory() -> str:
        return Path(jax.config.values["jax_compilation_cache_dir"]).name

    def other() -> str:
        with compile_cache_of_build(tmp_path / "late"), compile_cache(tmp_path / "compiles"):
            return directory()

    before = dict(jax.config.values)
    with ThreadPoolExecutor(1) as pool:
        with compile_cache_of_build(tmp_path / "builds"):
            assert pool.submit(other).result(60) == "compiles"
            assert directory() == "builds"
            late = compile_cache_of_build(tmp_path / "late")
            pool.submit(late.__enter__).result(60)
            assert directory() == "builds"
        pool.submit(late.__exit__, None, None, None).result(60)
    assert dict(jax.config.values) == before


@pytest.mark.parametrize("builds", ["builds", None])
def test_the_default_is_not_the_cache_of_an_environment_that_is_built(
    builds: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENVRAX_CACHE_DIR", str(tmp_path / "own"))
    with compile_cache_of_build(builds and tmp_path / builds), compile_cache(DEFAULT_CACHE_DIR):
        assert jax.config.values["jax_enable_compilation_cache"]
        assert jax.config.values["jax_compilation_cache_dir"] == str(tmp_path / "own")
