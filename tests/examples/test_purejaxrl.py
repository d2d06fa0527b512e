"""`purejaxrl.py`: both of its seeds learn, and its edits are those that the page shows."""

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.slow
def test_both_seeds_learn(run_python: Any) -> None:
    """As its users start it: a process of its own, without strict flags."""
    printed = run_python("import purejaxrl; purejaxrl.main()")
    seeds = re.findall(r"first update (\S+), the best (\S+)\n", printed)
    assert len(seeds) == 2
    assert all(float(best) > 5 * float(first) for first, best in seeds)


def test_the_page_shows_lines_of_the_script() -> None:
    page = (ROOT / "docs/coming-from/purejaxrl.md").read_text(encoding="utf-8")
    script = (ROOT / "examples/purejaxrl.py").read_text(encoding="utf-8")
    blocks = re.findall(r"^ +```diff\n(.+?)^ +```$", page, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"# edit (\d)", script)) == set("123456")
    assert re.findall(r"^(\d)\. \*\*", page, re.MULTILINE) == [*"123456"]
    assert len(blocks) == 2
    for block in blocks:
        added = re.findall(r"^    \+(.+)$", block, re.MULTILINE)
        assert added and set(added) <= set(script.splitlines())
    for line in re.findall(r": `(.+ = env\..+)`\.", page):
        assert line in script
