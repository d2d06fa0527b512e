"""Every Python block in README and the documentation runs, each page from top to bottom."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = {
    str(page.relative_to(ROOT)): "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))
    for pattern in ("*.md", "docs/**/*.md")
    for page in sorted(ROOT.glob(pattern))
}


@pytest.mark.parametrize("page", [page for page, code in PAGES.items() if code])
def test_python_blocks_run(page: str, tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text(PAGES[page], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", script.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
