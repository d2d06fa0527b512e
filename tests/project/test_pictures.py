"""The pictures of the documentation can be drawn again, and every one that is shown is there."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from envrax.libraries.cards import ids

ROOT = Path(__file__).resolve().parent.parent.parent


def test_every_picture_is_shown_and_every_one_shown_is_there() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    shown = {
        (page.parent / picture).resolve()
        for page in pages
        for picture in re.findall(r"!\[[^\]]+\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    }
    drawn = {*ROOT.glob("docs/img/*")}
    assert drawn <= shown <= drawn | {*ROOT.glob("docs/libraries/gallery/*/*")}


def test_every_picture_of_an_id_is_on_its_card() -> None:
    cards = runpy.run_path(str(ROOT / ".ci/fill.py"))
    folder = ROOT / "docs/libraries"
    shown = {folder / picture for id in ids() if (picture := cards["picture"](id))}
    drawn = [*folder.glob("gallery/*/*")]
    assert shown == {*drawn}
    assert sum(path.stat().st_size for path in drawn) < 6_000_000


@pytest.mark.slow
def test_they_are_drawn_by_a_command(tmp_path: Path) -> None:
    program = str(ROOT / ".ci" / "pictures")
    subprocess.run([sys.executable, program, "--output", str(tmp_path), "env-catch"], check=True)
    drawn = {path.name for path in tmp_path.iterdir() if path.stat().st_size > 1000}
    assert drawn == {"env-catch.gif"}
