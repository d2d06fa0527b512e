"""Every Python block in README and the documentation runs, and prints what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    str(page.relative_to(ROOT)): page.read_text(encoding="utf-8")
    for pattern in ("*.md", "docs/**/*.md")
    for page in sorted(ROOT.glob(pattern))
}


def blocks(page: str, language: str) -> list[str]:
    pattern = rf"^```{language}\n(.*?)^```$"
    return re.findall(pattern, PAGES[page], re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_python_blocks_run(page: str, tmp_path: Path) -> None:
    """Each page from top to bottom; where it shows output, that is all of the output."""
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks(page, "python")), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", script.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if shown := blocks(page, "text"):
        assert done.stdout == "".join(shown)


def told() -> list[tuple[str, str]]:
    row = r"^\| `(.+?)` \| `` (.+) `` \|$"
    return re.findall(row, PAGES["docs/errors.md"], re.MULTILINE)


@pytest.fixture(scope="module")
def typed() -> dict[str, object]:
    names: dict[str, object] = {}
    exec(blocks("docs/errors.md", "python")[0], names)
    return names


@pytest.mark.parametrize(("code", "sentence"), told(), ids=[code for code, _ in told()])
def test_bad_input_gets_the_sentence_that_the_page_shows(
    code: str, sentence: str, typed: dict[str, object]
) -> None:
    with pytest.raises(Exception) as told:  # the sentence is compared whole
        eval(code, typed)
    assert f"{told.type.__name__}: {told.value}" == sentence


def test_every_guard_that_the_page_of_traps_names_exists() -> None:
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", PAGES["docs/traps.md"])
    assert len(named) > 40
    for file, test in named:
        assert f"\ndef {test}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), test
