"""The pictures of the documentation can be drawn again, and every one that is shown is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def test_every_picture_is_shown_and_every_one_shown_is_there() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    shown = {
        (page.parent / picture).resolve()
        for page in pages
        for picture in re.findall(r"!\[[^\]]+\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    }
    drawn = [*ROOT.glob("docs/img/*"), *ROOT.glob("docs/libraries/gallery/*/*")]
    assert shown == set(drawn)
    assert sum(path.stat().st_size for path in drawn if path.suffix == ".webp") < 6_000_000


@pytest.mark.slow
def test_they_are_drawn_by_a_command(tmp_path: Path) -> None:
    program = str(ROOT / ".ci" / "pictures")
    subprocess.run([sys.executable, program, "--output", str(tmp_path), "env-catch"], check=True)
    drawn = {path.name for path in tmp_path.iterdir() if path.stat().st_size > 1000}
    assert drawn == {"env-catch.gif"}
