"""The package as a thing that is imported: what that does, what it leaves alone, who knows whom."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

import envrax

(PACKAGE,) = map(Path, envrax.__path__)

ARCHITECTURE = Path(__file__).parents[2] / "docs" / "built" / "architecture.md"
OPTIONAL = {"PIL", "imageio", "imageio_ffmpeg", "matplotlib", "mujoco"}


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


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the package: its dotted name without `envrax.`, and its file."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


@cache
def rooms() -> dict[str, int]:
    """The rooms in the order of the table on architecture, which says who may import whom."""
    table = ARCHITECTURE.read_text().partition("| modules | contents |")[2].partition("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines()[2:]]
    names = [name for row in rows for name in re.findall("`(.+?)`", row)]
    assert len(names) == len(set(names))
    return {name: place for place, name in enumerate(names)}


@cache
def room_of(module: str) -> tuple[int, str]:
    """The place and the room of a module, given without `envrax.`."""
    for name in (module, module.partition(".")[0]):
        if name in rooms():
            return rooms()[name], name
    raise AssertionError(f"envrax.{module} stands in no room: add it to {ARCHITECTURE}")


def imported_modules(module: str, path: Path) -> Iterator[str]:
    """The modules of the package that a file imports, without `envrax.`."""
    known = {name for name, _ in modules()}
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            home = ["envrax", *path.relative_to(PACKAGE).parts][: -node.level] if node.level else []
            source = ".".join([*home, *filter(None, [node.module])])
            names = [f"{source}.{alias.name}" for alias in node.names]
        for name in names:
            head, _, tail = name.partition(".")
            if head == "envrax":
                # `from envrax.env import JaxEnv` names a module and something that lives in it.
                yield tail if tail in known else tail.rpartition(".")[0]


def test_import_does_nothing_else(tmp_path: Path) -> None:
    """It starts no backend, changes no setting, registers no name, warns of nothing."""
    # Any array, and any question for a device, fails where the platform does not exist.
    code = """
import os, warnings
import jax
before = dict(jax.config.values), dict(os.environ), list(warnings.filters)
import envrax
assert (dict(jax.config.values), dict(os.environ), list(warnings.filters)) == before
assert envrax.registered_names() == []
try:
    jax.devices()
except RuntimeError as error:
    print(error)
"""
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "ENVRAX_CACHE_DIR": "cache"}
    quiet = {"JAX_PLATFORMS": "no_such_platform", "PYTHONDONTWRITEBYTECODE": "1"}
    assert "no_such_platform" in run(code, tmp_path, **home, **quiet)
    assert list(tmp_path.iterdir()) == []


def test_import_brings_no_library(tmp_path: Path) -> None:
    """Nothing but jax, chex and tqdm, also when it is asked which suites are installed."""
    code = """
import sys
import chex, jax, tqdm
brought = lambda: {name.partition(".")[0] for name in sys.modules}
before = brought()
import envrax
print(*envrax.available_suites())
others = brought() - before - set(sys.stdlib_module_names) - {"envrax"}
assert not others, others
"""
    assert {"brax", "gymnax", "pgx"} <= set(run(code, tmp_path).split())


@pytest.mark.integration
def test_make_stays_callable(tmp_path: Path) -> None:
    code = """
import sys
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


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()


@pytest.mark.parametrize(("module", "path"), list(modules()), ids=lambda x: str(x) or "envrax")
def test_modules_import_only_what_stands_before_them(module: str, path: Path) -> None:
    facade = f"{module}.__init__".lstrip(".")
    place, room = room_of(facade if path.name == "__init__.py" and facade in rooms() else module)
    for other in imported_modules(module, path):
        other_place, other_room = room_of(other)
        assert other_place < place or other_room == room, (
            f"envrax.{module} imports envrax.{other}, which stands after it"
        )


@pytest.mark.parametrize(("module", "path"), list(modules()), ids=lambda x: str(x) or "envrax")
def test_functions_import_only_optional_packages(module: str, path: Path) -> None:
    tree = ast.parse(path.read_text())
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.Lambda)]
    inside = {node for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {str(node.module)}
        else:
            continue
        optional = {name for name in names if name.partition(".")[0] in OPTIONAL}
        assert (names == optional) == (node in inside), (
            f"envrax.{module}, line {node.lineno}: a function imports optional packages only, and "
            "they are imported nowhere else"
        )


@pytest.mark.slow  # `.ci/run` runs it on the wheel and on the sdist as well
def test_a_users_file_runs(tmp_path: Path) -> None:
    said = run(Path(__file__).parents[1] / "typing_samples" / "user.py", tmp_path)
    assert said.startswith("total reward:")
