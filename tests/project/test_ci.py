"""What CI runs, and what the files around the package say of it."""

import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
REACH = runpy.run_path(str(ROOT / ".ci" / "reach.py"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_every_action_is_pinned_by_its_hash() -> None:
    used = [
        action
        for workflow in WORKFLOWS
        for action in re.findall(r"uses:\s*(\S+)", workflow.read_text(encoding="utf-8"))
    ]
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)] == []


def test_the_workflow_runs_every_part() -> None:
    [parts] = re.findall(r"^parts=\((.+)\)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    [jobs] = re.findall(r"^ +parts: \[(.+)\]$", workflow, re.MULTILINE)
    assert sorted(jobs.replace(",", "").split()) == sorted(parts.split())
    assert re.findall(r"run: \.ci/run (\w+)", workflow) == ["nightly", "scores"]
    assert parts.split() == [*REACH["PARTS"]]


@pytest.fixture(scope="module")
def sources() -> Any:
    return REACH["Sources"](ROOT)


@pytest.mark.parametrize(
    ("changed", "reaches", "not_reached"),
    [
        ("envrax/interop/pgx.py", "interop", "readme oldest newest trainers jaxrl accelerators"),
        ("benchmarks/elsewhere.py", "interop", "oldest newest trainers jaxrl accelerators"),
        ("envrax/interop/out/sb3.py", "trainers", "readme oldest newest interop jaxrl"),
        ("envrax/env.py", " ".join(REACH["PARTS"]), ""),
        ("tests/wrappers/test_time.py", "readme checks rest oldest newest", "interop package docs"),
        ("docs/trainers/jax.md", "rest jaxrl docs", "readme interop package"),
    ],
)
def test_a_change_runs_the_parts_that_it_reaches(
    changed: str, reaches: str, not_reached: str, sources: Any
) -> None:
    parts = {*REACH["needed_parts"](sources.reached([changed]))}
    assert {*reaches.split()} <= parts
    assert not parts & {*not_reached.split()}


def test_every_module_reaches_a_test(sources: Any) -> None:
    modules = [x for x in sources.files if x.startswith("envrax/") and x.endswith(".py")]
    modules = [x for x in modules if not x.endswith(("_.py", "envs.py"))]
    out_of_reach = [
        module
        for module in modules
        if "/template/" not in module and not any("/test_" in x for x in sources.reached([module]))
    ]
    assert len(modules) > 100
    assert out_of_reach == []


@pytest.mark.parametrize(
    ("changed", "nearest"),
    [
        ("envrax/wrappers/time.py", "wrappers/test_time.py"),
        ("envrax/wrappers/vector/record_video.py", "wrappers/vector/test_record_video.py"),
        ("envrax/saving.py", "saving/test_saving.py"),
        ("envrax/termination.py", "env/test_ends_without_a_reason.py"),
        ("tests/env/test_env.py", "env/test_env.py"),
    ],
)
def test_the_nearest_tests_of_a_file(changed: str, nearest: str, sources: Any) -> None:
    tests = REACH["nearest_tests"](sources, changed)
    assert f"tests/{nearest}" in tests
    assert {x.split("/")[1] for x in tests} == {nearest.split("/")[0]}


def test_a_change_is_found_however_a_file_is_used(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": '[project.entry-points."envrax.suites"]\npgx = "envrax.interop.pgx"\n',
        "envrax/__init__.py": "from envrax.batch import *\nfrom envrax.other import Other\n",
        "envrax/batch/__init__.py": "from envrax.batch.one import One\n",
        "envrax/batch/one.py": "from ..base import f\nRULES = 'rules.json'\n",
        "envrax/batch/rules.json": "{}",
        "envrax/base.py": "",
        "envrax/other.py": "FILES = 'template'\n",
        "envrax/template/main.txt": "",
        "envrax/interop/pgx.py": "",
        "tests/helpers.py": "from envrax import One\n",
        "tests/test_one.py": "import helpers\n",
        "tests/test_module.py": "from envrax import batch\nbatch.One\n",
        "tests/test_all.py": "from envrax import *\nOne\n",
        "tests/test_program.py": "run('''import envrax\nenvrax.batch.one.One''')\n",
        "tests/test_by_name.py": "'Other is no part of it'\n\ngetattr(envrax, 'One')\n",
        "tests/test_other.py": "import envrax\nenvrax.Other\n",
        "tests/test_page.py": "read('docs/page.md')\n",
        "tests/interop/test_ids.py": "make('pgx/chess')\n",
        "docs/page.md": "```python\nfrom envrax import Other\n```\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for command in ("init -q", "add .", "-c user.name=a -c user.email=b commit -qm c"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)

    def tests_after(changed: str, text: str | None = "\n") -> set[str]:
        path = tmp_path / changed
        path.unlink() if text is None else path.write_text(f"{files[changed]}{text}")
        _, reached = REACH["since"](tmp_path, "HEAD")
        path.write_text(files[changed])
        return {Path(x).stem for x in reached if "/test_" in x}

    of_one = {"test_one", "test_module", "test_all", "test_program", "test_by_name"}
    assert tests_after("envrax/base.py") == of_one
    assert tests_after("envrax/batch/rules.json") == of_one
    assert tests_after("envrax/other.py") == {"test_other", "test_page"}
    assert tests_after("envrax/template/main.txt") == {"test_other", "test_page"}
    assert tests_after("docs/page.md") == {"test_page"}
    assert tests_after("envrax/interop/pgx.py") == {"test_ids"}
    everything = of_one | {"test_other", "test_page", "test_ids"}
    assert tests_after("pyproject.toml") == everything  # all stands on it
    assert tests_after("tests/helpers.py", None) == everything  # what used it cannot be read
    assert REACH["since"](tmp_path, "HEAD") == ([], set())


def test_contributing_shows_what_each_part_needs() -> None:
    shown = {
        part: " ".join(f"`{x}`" for x in paths if x) or "any file"
        for part, paths in REACH["PARTS"].items()
    }
    rows = [f"| `{part}` | {paths} |\n" for part, paths in shown.items()]
    table = "".join(["| part | runs where a change reaches |\n", "|---|---|\n", *rows])
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert f"\n\n{table}\n" in page, f"expected on the page:\n{table}"


@pytest.mark.parametrize("repository", ["", "https://example.org/envrax"])
def test_links_of_readme_are_whole_where_there_is_an_address(
    repository: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    base = SimpleNamespace(MetadataHookInterface=object)  # hatchling is there in a build only
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", base)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    links = "[a](docs/a.md) [b](https://b.org) [c](#c) ![d](d.png)"
    (tmp_path / "README.md").write_text(links)
    hook, metadata = module.CustomMetadataHook(), dict[str, Any]()
    hook.root = str(tmp_path)
    if repository:
        metadata["urls"] = {"Repository": repository}
        links = (
            f"[a]({repository}/blob/main/docs/a.md) [b](https://b.org) [c](#c) "
            f"![d]({repository}/raw/main/d.png)"
        )
    hook.update(metadata)
    assert metadata["readme"]["text"] == links


def test_the_public_address_stands_in_one_place() -> None:
    """Which is `[project.urls]` in pyproject.toml; all else links inside the repository."""
    patterns = ["*.md", "*.yml", "docs/**/*.md", "envrax/**/*.py", "examples/**/*.*"]
    own = re.compile(rb"envrax\.github\.io|(github|githubusercontent)\.com/[\w-]+/envrax")
    files = [path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()]
    assert [str(path.relative_to(ROOT)) for path in files if own.search(path.read_bytes())] == []


def test_issue_forms_ask_for_commands_that_exist() -> None:
    forms = [path.read_text() for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")]
    asked = {command for form in forms for command in re.findall(r"python -m envrax (\w+)", form)}
    command_line = (ROOT / "envrax" / "__main__.py").read_text()
    assert asked == {"info", "bench"}
    assert all(f'    "{command}": (' in command_line for command in asked)


def test_llms_txt_has_a_sentence_of_every_page() -> None:
    """All but the pages that only include a file."""
    first_sentence = runpy.run_path(str(ROOT / ".ci" / "llms.py"))["first_sentence"]
    without = set[str]()
    for path in ROOT.glob("docs/**/*.md"):
        markdown = re.sub(r"\A---.*?---\n", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        sentence = first_sentence(markdown)
        assert not re.search(r"\]\(|\*\*|```|^#|\n", sentence), path
        if not sentence:
            without.add(path.name)
    assert without == {"changelog.md", "contributing.md"}
    page = "![a](b.png)\n\n# Title\n\n**See** [this](c.md) and\n`d`: for e.g. f. Then g.\n"
    assert first_sentence(page) == "See this and `d`."
