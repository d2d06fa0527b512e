"""What CI runs, and what the files around the package say of it."""

import importlib.util
import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
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
    assert asked == {"info", "bench"}
    assert all((ROOT / f"envrax/command/{command}.py").is_file() for command in asked)


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
