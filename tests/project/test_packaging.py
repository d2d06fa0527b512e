"""What `import envrax` does and does not do, and which module may import which."""

from __future__ import annotations

import ast
import os
import re
import runpy
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from importlib import metadata
from pathlib import Path

import pytest

import envrax
from benchmarks.pages import TABLES
from envrax._checks.packages import how_to_install

(PACKAGE,) = map(Path, envrax.__path__)

OPTIONAL = {"PIL", "imageio", "imageio_ffmpeg", "matplotlib", "mujoco"}

# The rooms of the package in their order. A module imports only from its own and from those above.
CONTRIBUTING = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text("utf-8")
TABLE = CONTRIBUTING.partition("| room | contents |\n")[2].partition("\n\n")[0]
ROOMS = re.findall(r"^\| `(\w+)` \|", TABLE, re.MULTILINE)


def run(code: str | Path, cwd: Path, **env: str) -> str:
    """Run code, or a script, in a fresh interpreter; give back what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *([code] if isinstance(code, Path) else ["-c", code])],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def module_name(path: Path) -> str:
    """The dotted name of a module of the package, without `envrax.`."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text("utf-8"))


def room_of(module: str) -> str:
    """The room of a module; `import envrax` itself is the last one."""
    return module.partition(".")[0] or "__init__"


@cache
def imported_modules(module: str) -> set[str]:
    """The modules of the package that a module imports, without `envrax.`."""
    found = set[str]()
    folder = ["envrax", *FILES[module].relative_to(PACKAGE).parts]
    for node in ast.walk(tree(module)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = folder[: -node.level] if node.level else []
            source = ".".join([*source, *filter(None, [node.module])])
            names = [f"{source}.{alias.name}" for alias in node.names]
        for name in names:
            head, _, tail = name.partition(".")
            if head == "envrax":
                # `from envrax.env import JaxEnv` names a module and something that it defines.
                found.add(tail if tail in FILES else tail.rpartition(".")[0])
    return found


def test_import_does_nothing_else(tmp_path: Path) -> None:
    """
    It starts no backend, changes no setting, registers no name, warns of nothing.

    It brings nothing but jax, chex and tqdm, also when it is asked which suites are installed.
    """
    # Any array, and any question for a device, fails where the platform does not exist.
    code = """
import os, sys, tomllib, warnings
import chex, jax, tqdm
brought = lambda: {name.partition(".")[0] for name in sys.modules}
modules = brought()
before = dict(jax.config.values), dict(os.environ), list(warnings.filters)
import envrax
assert (dict(jax.config.values), dict(os.environ), list(warnings.filters)) == before
assert envrax.registered_names() == []
print(*envrax.available_suites())
others = brought() - modules - set(sys.stdlib_module_names) - {"envrax"}
assert not others, others
try:
    jax.devices()
except RuntimeError as error:
    print(error)
"""
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "ENVRAX_CACHE_DIR": "cache"}
    quiet = {"JAX_PLATFORMS": "no_such_platform", "PYTHONDONTWRITEBYTECODE": "1"}
    suites, said = run(code, tmp_path, **home, **quiet).split("\n", 1)
    assert {"brax", "gymnax", "pgx"} <= set(suites.split()) and "no_such_platform" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.integration
def test_make_stays_callable(tmp_path: Path) -> None:
    code = """
import sys
import tomllib
import tomllib
import jax
import chex

for imports in (
    "import envrax",
    "import envrax; import envrax.make; import envrax",
    "from envrax.make import make_vec; import envrax",
    "import importlib; importlib.import_module('envrax.make'); import envrax",
    "import envrax; import importlib; importlib.import_module('envrax.make')",
    "import envrax.vec_env, envrax.envs, envrax.make as module; import envrax",
    "from envrax import make; import envrax.make",
):
    for module in [name for name in sys.modules if name.partition(".")[0] == "envrax"]:
        del sys.modules[module]
    exec(imports, {})
    import envrax
    try:
        envrax.make("NoSuchEnv-v0")
    except ValueError as error:
        assert "NoSuchEnv-v0" in str(error), imports
    else:
        raise AssertionError("an unknown name was accepted")
    from envrax.make import make, make_vec
    assert callable(make) and make_vec is envrax.make_vec, imports
"""
    run(code, tmp_path)


def test_version_is_that_of_the_distribution() -> None:
    # None is found where the checkout is on the path without being installed.
    assert {d.version for d in metadata.distributions(name="envrax")} <= {envrax.__version__}
    cited = re.compile(r"^ *version(?:: | = \{)([\d.]+)", re.MULTILINE)
    for page in ("CITATION.cff", "README.md"):
        found = cited.findall((Path(__file__).parents[2] / page).read_text(encoding="utf-8"))
        assert found == [envrax.__version__], page


@pytest.mark.parametrize("requires", [None, [], ["numpy; extra == 'other'"]])
def test_a_clone_on_the_path_alone_says_how_to_install(
    requires: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also beside another package named envrax."""

    def of_the_installed(name: str) -> list[str]:
        if requires is None:
            raise metadata.PackageNotFoundError(name)
        return requires

    monkeypatch.setattr("importlib.metadata.requires", of_the_installed)
    assert how_to_install("gymnax") == '`pip install -e ".[gymnax]"` in the clone of envrax'


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()


def test_every_module_is_in_a_room_and_every_room_has_one() -> None:
    assert {room_of(module) for module in FILES} == {*ROOMS}


def test_modules_import_only_from_rooms_above_theirs() -> None:
    upwards = [
        f"envrax.{module} imports envrax.{other}"
        for module in FILES
        for other in imported_modules(module)
        if ROOMS.index(room_of(other)) > ROOMS.index(room_of(module))
    ]
    assert upwards == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module: imported_modules(module) for module in FILES}
    assert sum(map(len, graph.values())) > 300
    TopologicalSorter(graph).prepare()  # an error shows the circle


def test_functions_import_only_optional_packages() -> None:
    """Functions import nothing else, and optional packages are imported nowhere else."""
    wrong: list[str] = []
    for module in FILES:
        nodes = [*ast.walk(tree(module))]
        functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.Lambda)]
        inside = {node for function in functions for node in ast.walk(function)}
        for node in nodes:
            if isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {str(node.module)}
            else:
                continue
            optional = {name for name in names if name.partition(".")[0] in OPTIONAL}
            if (names == optional) != (node in inside):
                wrong.append(f"envrax.{module}, line {node.lineno}")
    assert wrong == []


@pytest.mark.slow  # `.ci/run` runs it on the wheel and on the sdist as well
def test_a_users_file_runs(tmp_path: Path) -> None:
    said = run(Path(__file__).parents[1] / "typing_samples" / "user.py", tmp_path)
    assert said.startswith("total reward:")


def test_what_is_asked_of_whom_is_in_one_table() -> None:
    """Of each library: what its extra installs, the least version that its adapter takes."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))[
        "project"
    ]
    table = "\n".join(TABLES["extras"]())
    rows = re.findall(r"^\| `([\w-]+)` \| (.+?) \| (.+?) \| (yes|no).* \|$", table, re.M)
    suites = {*project["entry-points"]["envrax.suites"], "stoa"} - {"classic", "gymnasium"}
    libraries = {x.replace("_", "-") for x in suites} | {"gymnasium-jax"}
    assert [name for name, *_ in rows] == sorted(libraries)
    interop = " ".join(project["optional-dependencies"]["interop"])
    together = re.findall(r"[\w-]+", interop.replace("envrax", ""))
    for extra, asked, _, is_in in rows:
        assert (is_in == "yes") == (extra in together)
        adapter = PACKAGE / f"interop/{extra.replace('-jax', '').replace('-', '_')}.py"
        (least,) = re.findall(r'^(?:\w+ = )?require\("\w+", "([\d.]+)"', adapter.read_text(), re.M)
        assert f">={least}`" in asked, extra


def test_each_extra_is_tried_alone() -> None:
    """`.ci/run nightly` takes one step with each extra in an environment of its own."""
    alone = runpy.run_path(str(Path(__file__).parents[2] / ".ci/extra_alone.py"))
    assert {*alone["STEPS"]} <= {*alone["EXTRAS"]}, "a step with an extra that is gone"
