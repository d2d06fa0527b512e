"""
What a change can reach: `.ci/run --since REV` and `make check` ask it which tests to run.

    python .ci/reach.py since main     # the parts of `.ci/run`, and the files that are reached
    python .ci/reach.py check HEAD     # ruff, pyright and the quick tests of what changed

A file reaches those that import it or name it, and those that these reach. Both are read from the
source; a name that a package hands on, such as `envrax.VecEnv`, counts for the module that defines
it. A deleted file cannot be read, so it reaches everything. Needs no package, and imports none of
the code.
"""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The tests that need other libraries, and cannot run without them.
TIERS = tuple(
    f"tests/{x}/" for x in ("apart", "interop", "jaxrl", "nightly", "published", "trainers")
)
# Where an id, such as `"pgx/chess"`, or its prefix makes an environment of that library.
USING_LIBRARIES = (*TIERS, "docs/")
# What all stands on: if one changes, everything runs.
ALL = ("pyproject.toml", "tests/conftest.py", ".ci/run", ".ci/reach.py", ".github/")
# The tests of the repository as a whole, which read its files.
WHOLE = "tests/project/"

# The tests nearest to a module that no test imports itself.
NEAREST = {
    "_checks": "config",
    "agent_values": "multi_agent",
    "compiled_batch": "vec_env",
    "envs": "suite",
    "termination": "env",
}

# A part of `.ci/run` runs if the change reaches a file that begins with one of these. `core` are
# the tests that need no other library.
PARTS: dict[str, tuple[str, ...]] = {
    "readme": ("core", WHOLE),
    "checks": ("",),
    "rest": ("core", WHOLE, "docs/", "README.md"),
    "oldest": ("core",),
    "newest": ("core", "tests/published/"),
    "interop": ("tests/interop/", "tests/apart/", "docs/libraries/", "benchmarks/elsewhere"),
    "trainers": ("tests/trainers/", "docs/trainers/"),
    "jaxrl": ("tests/jaxrl/", "docs/trainers/jax"),
    "accelerators": ("benchmarks/accelerators",),
    "package": ("envrax/", "tests/typing_samples/user.py", "README.md", "hatch_build.py", ".ci/"),
    "docs": ("docs/", "envrax/", "mkdocs.yml", ".ci/", "README.md", "CHANGELOG.md"),
}


class Sources:
    """The Python files and pages of a checkout, and which of them imports which."""

    def __init__(self, root: Path) -> None:
        self.root = root
        listed = git(root, "ls-files", "--cached", "--others", "--exclude-standard")
        self.files = [name for name in listed if (root / name).is_file()]
        self.modules = {dotted(name): name for name in self.files if name.endswith(".py")}
        self.modules["parking"] = "docs/getting-started.md"  # whose environment other pages import
        self.by_name: dict[str, set[str]] = {}
        for name in self.files:
            self.by_name.setdefault(Path(name).name, set()).add(name)
        self.data: dict[str, set[str]] = {}  # by folder, such as the one of the templates
        for name in self.files:
            if not name.endswith(".py"):
                for folder in Path(name).parents:
                    self.data.setdefault(folder.as_posix(), set()).add(name)
        project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
        self.suites: dict[str, str] = project["entry-points"]["envrax.suites"]

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """Of each file those that it imports, or names."""
        files = [x for x in self.files if x.endswith((".py", ".md"))]
        return {name: {*self._imported(name)} - {name} for name in files}

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {name: set() for name in self.files}
        for name, imported in self.imports.items():
            for other in imported & found.keys():
                found[other].add(name)
        return found

    def reached(self, changed: Iterable[str]) -> set[str]:
        """The changed files, and all that import one of them, or import what does."""
        found, waiting = set[str](), [*changed]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self.importers.get(name, ())
        return found

    def _imported(self, name: str) -> Iterator[str]:
        text = (self.root / name).read_text("utf-8")
        if name.endswith(".md"):  # the blocks of a page share their names
            text = "".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
        yield from self._of_tree(name, ast.parse(text, name))
        if name.endswith(".md"):
            yield f"{WHOLE}test_docs.py"  # which runs it
        path = Path(name)
        if name.startswith("tests/") and path.stem.startswith("test_"):
            # By its name: fixtures import what the file tests, and conftest.py has the fixtures.
            same = self.by_name.get(f"{path.stem.removeprefix('test_')}.py", set())
            yield from (x for x in same if room(x) == room(name))
            folders = {str(folder / "conftest.py") for folder in path.parents}
            yield from folders & self.by_name.get("conftest.py", set())

    def _of_tree(self, name: str, tree: ast.Module) -> Iterator[str]:
        nodes = [*ast.walk(tree)]
        used = {node.id for node in nodes if isinstance(node, ast.Name)}
        bound: dict[str, str] = {}  # what an imported name stands for
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self.module(alias.name)
                    whole = alias.name if alias.asname else alias.name.partition(".")[0]
                    bound[alias.asname or whole] = whole
            elif isinstance(node, ast.ImportFrom):
                source = source_of(name, node)
                for alias in node.names:
                    bound[alias.asname or alias.name] = f"{source}.{alias.name}"
                    # What a package only hands on is counted where it is used.
                    if alias.name in used or not name.endswith("__init__.py"):
                        yield from self.defined(source, alias.name)
                    if alias.name == "*":
                        for word in used & self.handed_on(source).keys():
                            yield from self.defined(source, word)
        descriptions = {id(doc) for node in nodes if (doc := docstring(node))}
        for node in nodes:
            if isinstance(node, ast.Attribute):
                first, _, rest = chain(node.value).partition(".")
                source = ".".join(filter(None, [bound.get(first, first), rest]))
                if source in self.modules:  # `envrax.VecEnv`
                    yield from self.defined(source, node.attr)
            elif (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in descriptions
            ):
                yield from self._named(name, node.value)

    def _named(self, name: str, text: str) -> Iterator[str]:
        """The files that a text in the source names: a module, an id, a file that is read."""
        if not name.startswith(("envrax/", WHOLE)):  # a program for another process, a name
            words = {*re.findall(r"envrax(?:\.\w+)+|\w+", text)}
            for source in {"envrax"} | (words & self.modules.keys()):
                for word in words & self.handed_on(source).keys():
                    yield from self.defined(source, word)
            for word in words:
                if "." in word:
                    yield from self.dotted_name(word)
        for prefix in {text, *re.findall(r"(\w+)/", text)}:
            suite = self.suites.get(prefix)
            if suite == "envrax.classic" and not name.startswith("envrax/"):
                yield from (x for x in self.files if x.startswith("envrax/classic/"))
            elif suite and name.startswith(USING_LIBRARIES):  # elsewhere it is only a name
                yield self.modules[suite]
        if "\n" in text or " " in text:
            return
        if text.startswith("envrax.") and text not in self.suites.values():
            yield from self.module(text)  # a suite counts where its ids are used
        if not name.startswith("envrax/"):
            yield from self.module(text.partition(":")[0])  # `module:object`
        last = text.rpartition("/")[2]
        if "." in last and (is_test(name) or not last.endswith((".py", ".md"))):
            yield from self.by_name.get(last, ())
        yield from self.data.get(f"{name.rpartition('/')[0]}/{text}", ())

    def dotted_name(self, name: str) -> Iterator[str]:
        """The files of `envrax.interop.out.sb3.to_sb3`, as it stands in a text."""
        source, _, last = name.rpartition(".")
        if name in self.modules and last not in self.handed_on(source):
            yield self.modules[name]
        elif last in self.handed_on(source):
            yield from self.defined(source, last)
        elif "." in source:
            yield from self.dotted_name(source)

    def module(self, name: str) -> Iterator[str]:
        """The file of a module, if it is one of ours."""
        if name in self.modules:
            yield self.modules[name]

    def defined(self, source: str, name: str) -> Iterator[str]:
        """The file in which a name of a module is defined, and the packages that hand it on."""
        whole = f"{source}.{name}"
        if whole in self.modules and name not in self.handed_on(source):
            yield self.modules[whole]
        elif source in self.modules:
            yield self.modules[source]
            for other in self.handed_on(source).get(name, ()):
                yield from self.defined(other, name)

    @cache  # noqa: B019  # one object in a process
    def handed_on(self, source: str) -> dict[str, list[str]]:
        """The names that a package imports to hand them on, and the module of each."""
        if not self.modules.get(source, "").endswith("__init__.py"):
            return {}
        path = self.modules[source]
        names: dict[str, list[str]] = {}
        for node in ast.walk(ast.parse((self.root / path).read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                module = source_of(path, node)
                theirs = {} if module == source else self.handed_on(module)
                for name in theirs if node.names[0].name == "*" else [x.name for x in node.names]:
                    if name in theirs or f"{module}.{name}" not in self.modules:  # no submodule
                        names.setdefault(name, []).append(module)
        return names


def git(root: Path, *arguments: str) -> list[str]:
    command = ["git", "-c", "core.quotePath=false", *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip())
    return done.stdout.splitlines()


def docstring(node: ast.AST) -> ast.Constant | None:
    """The docstring of a module, a class or a function, if it has one."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    first = node.body[0] if isinstance(node, kinds) and node.body else None
    value = first.value if isinstance(first, ast.Expr) else None
    return value if isinstance(value, ast.Constant) else None


def changed_since(root: Path, revision: str) -> list[str]:
    """The files that differ from those of a revision, and those that git does not know yet."""
    new = git(root, "ls-files", "--others", "--exclude-standard")
    return [*git(root, "diff", "--name-only", "--no-renames", revision), *new]


def dotted(path: str) -> str:
    """The name under which a file is imported: tests and examples are on the path themselves."""
    parts = Path(path).with_suffix("").parts
    parts = parts[parts[0] in ("tests", "examples") :]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(path: str) -> str:
    """The room of a module; that of a test is the one of the same name."""
    if path.startswith(TIERS):
        return "interop"
    parts = Path(path).with_suffix("").parts
    return parts[1] if parts[0] in ("envrax", "tests") else ""


def chain(node: ast.expr) -> str:
    """`a.b.c` as it is written, or nothing where the first is no name."""
    if isinstance(node, ast.Attribute):
        return f"{chain(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def source_of(path: str, node: ast.ImportFrom) -> str:
    """The module from which an import takes its names, also a relative one."""
    folder = Path(path).parts[: -node.level] if node.level else ()
    return ".".join([*folder, *filter(None, [node.module])])


def is_test(path: str) -> bool:
    """Whether a file is a test of a part, or a helper of such tests."""
    return path.startswith("tests/") and not path.startswith(WHOLE)


def is_core(path: str) -> bool:
    """Whether a file is a test that needs no other library, or a helper of such tests."""
    return is_test(path) and not path.startswith(TIERS)


def needed_parts(reached: set[str]) -> list[str]:
    """The parts of `.ci/run` that test what a change reaches."""

    def holds(prefix: str, path: str) -> bool:
        return is_core(path) if prefix == "core" else path.startswith(prefix)

    return [
        part
        for part, prefixes in PARTS.items()
        if any(holds(prefix, path) for prefix in prefixes for path in reached)
    ]


def since(root: Path, revision: str) -> tuple[list[str], set[str]]:
    """The parts that a change since a revision needs, and the files that it reaches."""
    sources, changed = Sources(root), changed_since(root, revision)
    if any(path.startswith(ALL) or not (root / path).exists() for path in changed):
        return [*PARTS], {*sources.files}
    reached = sources.reached(changed)
    if reached:
        reached |= {path for path in sources.files if path.startswith(WHOLE)}
    return needed_parts(reached), reached


def nearest_tests(sources: Sources, path: str) -> set[str]:
    """The tests that a change of a file reaches most directly, of those that need no library."""
    tests = [x for x in sources.files if is_core(x) and Path(x).name.startswith("test_")]
    if path in tests or path.startswith(WHOLE):
        return {path}
    using = {test for test in tests if path in sources.imports[test]}
    if not path.startswith("envrax/"):
        return using
    named = {test for test in using if test.endswith(f"/test_{Path(path).stem}.py")}
    folders = [*map(str, Path(path).relative_to("envrax").with_suffix("").parents)][:-1]
    for folder in [
        *folders,
        NEAREST.get(room(path), room(path)),
    ]:  # the tests beside it, or else of the package around it
        beside = {test for test in tests if test.startswith(f"tests/{folder}/")}
        if beside:
            return beside & named or beside & using or beside
    return using


def names_in(root: Path, path: str) -> list[str]:
    """The public classes and functions of a file."""
    if not path.startswith("envrax/wrappers/") or not (root / path).is_file():
        return []
    kinds = (ast.ClassDef, ast.FunctionDef)
    body = ast.parse((root / path).read_text("utf-8")).body
    return [node.name for node in body if isinstance(node, kinds) and node.name[0] != "_"]


def check(root: Path, revision: str) -> int:
    """Run ruff, pyright and the quick tests nearest to what changed."""
    changed = changed_since(root, revision)
    there = [x for x in changed if (root / x).is_file()]
    python = [x for x in there if x.endswith(".py")]
    if python and not passes(root, ["ruff", "check", *python]):
        return 1  # what cannot be parsed has no imports
    sources = Sources(root)
    nearest = {path: nearest_tests(sources, path) for path in python}
    tests = sorted({*itertools.chain(*nearest.values())})
    commands: list[list[str]] = []
    if python:
        commands += [["ruff", "format", "--check", *python]]
        package = [x for x in python if x.startswith("envrax/")]
        beside = [x for x in python if x.startswith(("tests/", "examples/", "benchmarks/"))]
        interpreter = ["--pythonpath", sys.executable]
        commands += [["pyright", *interpreter, *package]] if package else []
        commands += [["pyright", "--project", "tests", *interpreter, *beside]] if beside else []
    names = [name for path in python for name in names_in(root, path)]
    if tests:
        commands += [["pytest", "-q", *tests]]
    if names:
        others = "not interop and not apart and not trainers and not jaxrl and not nightly"
        rows = ["tests/wrappers/test_matrix.py", "-m", f"slow and {others}"]
        commands += [["pytest", "-q", *rows, "-k", " or ".join(names)]]
    failed = [" ".join(command) for command in commands if not passes(root, command)]
    print(*(f"FAILED: {command}" for command in failed), sep="\n")
    untested = [x for x in changed if not nearest.get(x)]
    if untested:
        print(f"No quick test is near to: {', '.join(untested)}")
        print(f"`.ci/run --since {revision}` runs all that they reach.")
    return len(failed)


def passes(root: Path, command: list[str]) -> bool:
    beside = Path(sys.executable).with_name(command[0])
    print("$", *command, flush=True)
    done = subprocess.run([str(beside) if beside.exists() else command[0], *command[1:]], cwd=root)
    return done.returncode in ((0, 5) if command[0] == "pytest" else (0,))  # 5: no test


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] not in ("since", "check"):
        sys.exit("usage: reach.py {since,check} REVISION")
    if sys.argv[1] == "check":
        sys.exit(min(check(ROOT, sys.argv[2]), 1))
    parts, reached = since(ROOT, sys.argv[2])
    print(*parts)
    print(*sorted(reached), sep="\n")


if __name__ == "__main__":
    main()
