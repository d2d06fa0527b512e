"""Suites of installed packages, found by the prefix of an id; `python -m envrax`."""

import importlib
import platform
import re
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import pytest
from fakes import VectorConfig, VectorEnv
from helpers import slow_but

import envrax
from envrax import libraries, registry
from envrax.__main__ import main
from envrax.error import MissingPackageError
from envrax.interop.peer.library import require

pytestmark = pytest.mark.usefixtures("clean_registry")

SUITE = """
from fakes import VectorConfig, VectorEnv
from envrax import EnvSpec, EnvSuite, register_suite
specs = [EnvSpec("A", VectorEnv, VectorConfig()), EnvSpec("B", VectorEnv, VectorConfig())]
register_suite(EnvSuite(prefix="{prefix}", category="toys", specs=specs))
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """`install(prefix, code)`: a package on the path that names a suite, as pip leaves it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = set(sys.modules)

    def install(prefix: str, code: str = SUITE, metadata: str = "", value: Any = None) -> None:
        module, info = f"{prefix}_envs", tmp_path / f"{prefix}-1.2.dist-info"
        (tmp_path / f"{module}.py").write_text(code.format(prefix=prefix))
        module = module if value is None else value
        info.mkdir()
        head = f"Metadata-Version: 2.1\nName: {prefix}\nVersion: 1.2\n{metadata}"
        (info / "METADATA").write_text(head)
        (info / "entry_points.txt").write_text(f"[envrax.suites]\n{prefix} = {module}\n")

    yield install
    for name in set(sys.modules) - modules:
        del sys.modules[name]


@pytest.mark.parametrize(
    "build", [envrax.get_spec, envrax.make, lambda id: envrax.make_multi([id])]
)
def test_a_prefix_is_loaded_when_an_id_asks_for_it(install: Install, build: Any) -> None:
    install("toys")
    assert "toys" in envrax.available_suites()
    assert "toys_envs" not in sys.modules and "toys/A-v0" not in envrax.registered_names()
    build("toys/A-v0")
    assert {"toys/A-v0", "toys/B-v0"} <= {*envrax.registered_names()}
    assert envrax.get_spec("toys/B-v0").suite == "toys"


def test_a_name_of_ones_own_hides_no_suite(install: Install) -> None:
    install("toys")
    envrax.register("toys/Mine-v0", VectorEnv, VectorConfig())
    assert envrax.get_spec("toys/B-v0").suite == "toys"
    assert set(envrax.load_suite("toys")) == {"toys/A-v0", "toys/B-v0", "toys/Mine-v0"}


def test_a_name_is_found_while_its_package_is_being_imported(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered, asked, go_on = threading.Event(), threading.Event(), threading.Event()
    events = SimpleNamespace(registered=registered, go_on=go_on)
    monkeypatch.setitem(sys.modules, "events_of_this_test", events)
    install(
        "toys",
        SUITE
        + """
from events_of_this_test import go_on, registered
registered.set()
go_on.wait()
more = [EnvSpec("C", VectorEnv, VectorConfig())]
register_suite(EnvSuite(prefix="{prefix}", category="toys", specs=more))
""",
    )
    with ThreadPoolExecutor() as pool:
        first = pool.submit(envrax.get_spec, "toys/A-v0")
        registered.wait()
        look_up = registry.installed_suites
        monkeypatch.setattr(registry, "installed_suites", lambda: asked.set() or look_up())
        second = pool.submit(envrax.get_spec, "toys/C-v0")
        second.add_done_callback(lambda _: asked.set())  # if it did not ask
        asked.wait()
        go_on.set()
        assert second.result().name == "toys/C-v0"
        assert first.result().name == "toys/A-v0"


def test_a_suite_is_loaded_whole(install: Install) -> None:
    install("toys")
    suite = envrax.load_suite("toys")
    assert (suite.prefix, suite.category, suite.envs) == ("toys", "toys", ["A", "B"])
    assert list(suite) == ["toys/A-v0", "toys/B-v0"]
    assert list(envrax.load_suite("toys")) == list(suite)


def test_suites_that_share_a_prefix_are_one() -> None:
    for version in ("v0", "v1"):
        specs = [envrax.EnvSpec("A", VectorEnv, VectorConfig())]
        envrax.register_suite(envrax.EnvSuite(prefix="p", version=version, specs=specs))
    assert list(envrax.load_suite("p")) == ["p/A-v0", "p/A-v1"]


def test_a_module_before_the_id_is_imported_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "by_hand.py").write_text(SUITE.format(prefix="hand"))
    assert envrax.get_spec("by_hand:hand/A-v0").name == "hand/A-v0"
    with pytest.raises(ImportError, match="nowhere"):
        envrax.get_spec("nowhere:hand/A-v0")


def test_a_library_that_is_missing_is_named(install: Install) -> None:
    install("lacking", "import a_library_that_is_not_there")
    with pytest.raises(MissingPackageError, match="a_library_that_is_not_there"):
        envrax.make("lacking/A-v0")
    with pytest.raises(MissingPackageError, match="lacking_envs"):
        envrax.load_suite("lacking")


def test_unknown_prefixes_offer_close_ones(install: Install) -> None:
    install("toys")
    with pytest.raises(ValueError, match="'toys'"):
        envrax.load_suite("toy")
    with pytest.raises(ValueError, match="toys/A-v0"):
        envrax.make("toyz/A-v0")
    with pytest.raises(ValueError, match="toys/A-v0"):
        envrax.make("toys/A-v1")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("A-v3", "toys/A-v0"),  # of a suite that is not imported yet
        ("other/B", "toys/B-v0"),
        ("TicTacToe", "pgx/tic_tac_toe"),
        ("Empty-5x5", "navix/Navix-Empty-5x5-v0"),
        ("HalfCheetah-v4", "brax/halfcheetah"),
    ],
)
def test_an_id_is_found_without_its_prefix(install: Install, name: str, meant: str) -> None:
    install("toys")
    install("faulty", "raise OSError")  # no reason to keep quiet about the others
    before = {*sys.modules}
    with pytest.raises(ValueError, match=meant):
        envrax.make(name)
    imported = {*sys.modules} - before
    assert not {"pgx", "navix", "brax"} & imported, "libraries are looked up in a list"


def test_a_name_that_is_like_nothing(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "is_installed", lambda package: package != "mujoco_playground")
    install("toys")
    with pytest.raises(ValueError, match="not installed: playground") as error:
        envrax.make("xyzzy")
    assert "Did you mean" not in str(error.value)


@pytest.mark.parametrize("name", ["nobody/x", "e", "classic/c"])
def test_only_near_misses_are_offered(name: str, install: Install) -> None:
    """Many ids contain such a name; `find` lists them, but nobody misspells one so."""
    install("toys")
    assert registry.find_ids(name)
    with pytest.raises(ValueError, match="Unknown environment") as error:
        envrax.make(name)
    assert not re.search("Did you mean|Install pgx", str(error.value))


NO_MODULES = ("", "not_there:suite [extra]", ":suite", "no module", "1st")


@pytest.mark.parametrize("value", slow_but(NO_MODULES[1], values=NO_MODULES))
def test_an_entry_point_that_names_no_module(
    value: str, install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("toys")
    install("faulty", value=value)
    assert main(["list"]) == 0
    assert f"faulty        {value or 'an entry point without a module'}, from faulty 1.2\n" in (
        capsys.readouterr().out
    )
    assert main(["find", "toys/A"]) == 0
    assert capsys.readouterr().out.startswith("toys/A-v0 ")
    with pytest.raises(ValueError, match="toys/A-v0"):
        envrax.make("toyz/A-v0")
    with pytest.raises(MissingPackageError, match="Suite 'faulty': expected a module"):
        envrax.make("faulty/A-v0")


@pytest.mark.parametrize("value", ["toys_envs:suite", " toys_envs ", "toys_envs [extra]"])
def test_only_the_module_of_an_entry_point_counts(value: str, install: Install) -> None:
    install("toys", value=value)
    assert envrax.get_spec("toys/A-v0").suite == "toys"


@pytest.mark.parametrize(
    ("raising", "said"),
    [
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("raise KeyError('pole')", "KeyError: 'pole'"),
        ("import pytest; pytest.skip('not here')", "not here"),  # not an `Exception` either
        ("1 +", "SyntaxError"),
        ("from jax import gone", "ImportError: cannot import name 'gone'"),
    ],
)
@pytest.mark.parametrize("named", ["faulty/A-v0", "faulty_envs:faulty/A-v0"])
def test_the_import_of_a_suite_is_all_or_nothing(
    raising: str, said: str, named: str, install: Install
) -> None:
    install("toys")
    install("faulty", "import toys_envs\n" + SUITE + raising)
    for _ in range(2):  # and the second time is as the first
        with pytest.raises(MissingPackageError, match=re.escape(said)) as error:
            envrax.make(named)
        assert "Suite 'faulty'" in str(error.value) and "faulty_envs" in str(error.value)
        assert not [name for name in envrax.registered_names() if "faulty" in name]
    assert envrax.get_spec("toys/A-v0").suite == "toys", "its import was complete"


def test_a_suite_that_is_mended_is_imported_anew(install: Install, tmp_path: Path) -> None:
    """Also the modules of it that did not fail: they registered names."""
    package = tmp_path / "faulty"
    package.mkdir()
    (package / "good.py").write_text(SUITE.format(prefix="faulty"))
    bad = "from faulty import good\nraise OSError('no disk')"
    (package / "__init__.py").write_text(bad)
    install("faulty", value="faulty")
    with pytest.raises(MissingPackageError, match="no disk"):
        envrax.load_suite("faulty")
    (package / "__init__.py").write_text("from faulty import good as good")
    importlib.invalidate_caches()
    assert list(envrax.load_suite("faulty")) == ["faulty/A-v0", "faulty/B-v0"]


def test_nothing_of_a_suite_that_fails_stays(install: Install, tmp_path: Path) -> None:
    """Names of its classes without its prefix, and its names of others' classes."""
    register = "import envrax\nfrom fakes import VectorConfig, VectorEnv\n"
    register += "class Own(VectorEnv): ...\nenvrax.register({name!r}, {cls}, VectorConfig())\n"
    package = tmp_path / "faulty"
    package.mkdir()
    (package / "part.py").write_text(register.format(name="Part-v0", cls="Own"))
    (package / "more.py").write_text(register.format(name="faulty/More-v0", cls="VectorEnv"))
    (tmp_path / "other_suite.py").write_text(register.format(name="Other-v0", cls="Own"))
    lines = "import other_suite\nfrom faulty import more, part\nraise OSError('no disk')"
    (package / "__init__.py").write_text(register.format(name="Plain-v0", cls="Own") + lines)
    install("faulty", value="faulty")
    before = set(envrax.registered_names())
    for module in ("faulty", "faulty", "faulty.part"):
        with pytest.raises(MissingPackageError, match="no disk"):
            envrax.make(f"{module}:faulty/More-v0")
        assert set(envrax.registered_names()) - before == {"Other-v0"}


def test_only_a_missing_module_is_to_be_installed(install: Install) -> None:
    install("faulty", "raise ModuleNotFoundError('no driver')")
    with pytest.raises(MissingPackageError, match="no driver") as error:
        envrax.make("faulty/A-v0")
    assert "Install None" not in str(error.value)


def test_an_interrupted_import_leaves_no_names(install: Install) -> None:
    install("faulty", SUITE + "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        envrax.make("faulty/A-v0")
    assert not [name for name in envrax.registered_names() if "faulty" in name]


def test_names_of_another_thread_stay(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    def register_meanwhile() -> None:
        with ThreadPoolExecutor() as pool:
            pool.submit(envrax.register, "mine/Mine-v0", VectorEnv, VectorConfig()).result()

    events = SimpleNamespace(register_meanwhile=register_meanwhile)
    monkeypatch.setitem(sys.modules, "events_of_this_test", events)
    call = "import events_of_this_test\nevents_of_this_test.register_meanwhile()\nraise OSError"
    install("faulty", SUITE + call)
    with pytest.raises(MissingPackageError):
        envrax.make("faulty/A-v0")
    assert "mine/Mine-v0" in envrax.registered_names()
    assert "faulty/B-v0" not in envrax.registered_names()


def test_the_command_line_lists_and_shows(
    install: Install, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install("toys")
    monkeypatch.setattr(libraries, "is_installed", lambda package: package != "gymnax")
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert "toys          toys_envs, from toys 1.2\n" in out
    assert 'gymnax        not installed: `pip install "gymnax>=1' in out
    assert "toys_envs" not in sys.modules
    assert main(["list", "toys"]) == 0
    assert capsys.readouterr().out == "toys/A-v0\ntoys/B-v0\n"
    assert main(["show", "toys/A-v0"]) == 0
    shown = capsys.readouterr().out
    assert "max_steps" in shown and "fakes.VectorEnv" in shown and "Box(" in shown
    assert "suite         toys\n" in shown
    pip = '`pip install "gymnax>=1.0" "pygame>=2.5; python_version < \'3.14\'" "six"`'
    rows = {"classic": "classic/Maze-v0 installed", "tic-tac": "pgx/tic_tac_toe installed"}
    rows |= {"Catch-bsuite": f"gymnax/Catch-bsuite {pip}"}
    for word, row in rows.items():
        assert main(["find", word]) == 0
        assert row in " ".join(capsys.readouterr().out.split())
    assert main(["find", "xyzzy"]) == 0
    assert capsys.readouterr().out.startswith("none: `python -m envrax find --help`")


@pytest.mark.parametrize("works", [True, False])
def test_the_command_line_tells_of_versions(
    works: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where JAX finds no device, which may be what the report is about."""

    def no_device() -> Any:
        raise RuntimeError("Unable to initialize backend 'tpu'")

    if not works:
        monkeypatch.setattr(jax, "devices", no_device)
    monkeypatch.setenv("XLA_OF_THIS_TEST", "a b")
    monkeypatch.delenv("ENVRAX_CACHE_DIR")  # a long path
    before = {*sys.modules}
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    rows = {line[:14].strip(): line[14:] for line in out.splitlines()}
    assert rows["envrax"] == envrax.__version__ and rows["jax"] == metadata.version("jax")
    assert rows["Python"].startswith(f"{platform.python_version()}, ")
    text = " ".join(out.split())
    assert f"flax=={metadata.version('flax')}" in text
    assert "ruff==" not in text and "jax==" not in text  # a tool; a row of its own
    assert f"classic (envrax {envrax.__version__})" in text
    assert "jax_enable_x64=False" in text and "XLA_OF_THIS_TEST=a b" in text
    assert ("Unable to initialize backend" in rows["devices"]) != works
    assert (jax.default_backend() in rows.get("backend", "")) == works
    assert max(map(len, out.splitlines())) <= 80
    assert not {"flax", "optax"} & ({*sys.modules} - before)


def test_a_suite_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`.ci/run` installs, tests and trains it."""
    monkeypatch.chdir(tmp_path)
    assert main(["new", "walks"]) == 0
    capsys.readouterr()
    files = {str(x.relative_to(tmp_path)) for x in tmp_path.rglob("*") if x.is_file()}
    assert {
        "walks/pyproject.toml",
        "walks/walks/py.typed",
        "walks/ppo.py",
        "walks/.github/workflows/check.yml",
    } <= files
    assert not any("my_suite" in (tmp_path / name).read_text() for name in files)
    taken = "walks", "jax", "classic"
    illegal = "My_Suite", "my-suite", "class", "a_", "é", "../up"
    for name in (*taken, *illegal):
        with pytest.raises(SystemExit):
            main(["new", name])
        assert "new: expected a name of lower-case" in capsys.readouterr().err
    assert {str(x.relative_to(tmp_path)) for x in tmp_path.rglob("*") if x.is_file()} == files


def test_the_command_line_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["show", "nobody/A-v0"])
    assert stopped.value.code == 2
    assert "Unknown environment 'nobody/A-v0'." in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_line_checks(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("toys")
    assert main(["check", "--num-steps", "5", "toys_envs:toys/A-v0"]) == 0
    assert "rules kept, 0 broken" in capsys.readouterr().out


def test_the_command_line_ends_quietly_when_its_reader_leaves(run_python: Any) -> None:
    """`python -m envrax list | head -1`, with a reader that is gone before the first line."""
    printed = run_python(
        """
        import os, subprocess, sys
        for arguments in (["envrax", "list"], ["envrax.testing", "--help"]):
            read, write = os.pipe()
            os.close(read)
            command = [sys.executable, "-m", *arguments]
            done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
            os.close(write)
            print(done.returncode < 2, done.stderr)
        """
    )
    assert printed == "True \nTrue \n"


@pytest.mark.parametrize("module", ["envrax", "envrax.testing"])
def test_a_safe_path_is_left_alone(module: str, run_python: Any, tmp_path: Path) -> None:
    """With `-P`, Python imports nothing from the working directory."""
    (tmp_path / "here.py").write_text("print('imported')")
    printed = run_python(
        f"""
        import subprocess, sys
        check = ["check"] * ({module!r} == "envrax")
        for flags in ([], ["-P"]):
            command = [sys.executable, *flags, "-m", {module!r}, *check, "here:Env"]
            done = subprocess.run(command, capture_output=True, text=True)
            print(done.returncode, done.stdout.split(), "No module named 'here'" in done.stderr)
        """
    )
    assert printed == "2 ['imported'] False\n2 [] True\n"


def test_libraries_that_are_imported_in_two_threads_leave_the_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second began while `sys.stdout` was stderr, and put that back last."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("envrax.interop.peer.library.version_of", lambda package: "9.0")
    begun, go_on = [threading.Event(), threading.Event()], [threading.Event(), threading.Event()]
    events = SimpleNamespace(begun=begun, go_on=go_on)
    monkeypatch.setitem(sys.modules, "events_of_this_test", events)
    lines = "import sys, events_of_this_test as e\nsys.stdout = None\ne.begun[{0}].set()\n"
    for i in (0, 1):
        name = f"library_{i}_of_this_test"
        (tmp_path / f"{name}.py").write_text(lines.format(i) + f"e.go_on[{i}].wait()")
    before = sys.stdout, sys.stderr, sys.__stdout__
    with ThreadPoolExecutor() as pool:
        imports: list[Any] = []
        for i in (0, 1):
            imports.append(pool.submit(require, f"library_{i}_of_this_test", "1"))
            begun[i].wait()
        for i in (0, 1):
            go_on[i].set()
            imports[i].result()
    assert (sys.stdout, sys.stderr, sys.__stdout__) == before


def test_a_part_of_a_library_that_lacks_a_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As factoriax without `six`, which only its `make` imports."""
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "library_of_this_test"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "make.py").write_text("import no_such_package_of_this_test")
    assert package.name not in sys.modules
    with pytest.raises(MissingPackageError) as found:
        require("library_of_this_test", "1", "make", extra="factoriax")
    said = str(found.value)
    assert "library_of_this_test 1 or newer" in said and "no_such_package_of_this_test" in said
    assert "Install it with `pip install" in said


def test_a_fork_is_known_by_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an old gymnax that another package installs, or that lies on the path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "fork_of_this_test.py").write_text("class Env:\n    def step(self): ...\n")
    fork = require("fork_of_this_test", "1.0", has="Env.step")
    assert require("fork_of_this_test", "1.0") is fork  # no package says its version
    with pytest.raises(MissingPackageError, match=r"1.0 or newer; got a `fork.* without `Env.end`"):
        require("fork_of_this_test", "1.0", has="Env.end")
    # The version of a package says nothing about a module that another one brings.
    monkeypatch.setattr("envrax.interop.peer.library.version_of", lambda package: "0.1")
    assert require("fork_of_this_test", "1.0", has="Env.step") is fork


def test_an_id_whose_suite_is_not_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a checkout of envrax on the path; the id itself is no close match."""
    monkeypatch.setattr("envrax.registry.installed_suites", dict)
    for missing, advice in (
        (["pgx"], r"Install pgx with `pip install"),
        ([], r"The suite pgx is not registered, .* or import `envrax\.interop\.pgx`"),
    ):
        monkeypatch.setattr(libraries, "missing_libraries", lambda missing=missing: missing)
        with pytest.raises(ValueError, match=advice) as found:
            envrax.make("pgx/tic_tac_toe")
        assert "Did you mean" not in str(found.value)
    with pytest.raises(ValueError, match=r"Did you mean .*'pgx/tic_tac_toe'"):
        envrax.make("pgx/tictactoe")
    monkeypatch.setattr(registry, "available_suites", list)
    assert "or import `envrax.classic`" in registry._about_suites("classic/Ball-v0", [])
