"""Every figure in README and the documentation is one of `benchmarks/results`."""

import re
from pathlib import Path

import pytest

from benchmarks import interop_table
from benchmarks.pages import FIGURE, PAGES, ROOT, written

# A number with a unit of measured time, a ratio, or a cell of a table with decimals.
MEASURED = re.compile(
    r"\d (?:times|µs|ms|ns|s|seconds|minutes|%|kB|MB|GB)\b|\| *-?[\d,]*\.\d+ *(?=\|)"
)
# What is no measurement of ours: a definition, a version, a size that follows from a shape.
DEFINED = {
    "docs/advanced/sharding.md": ("16 MB", "34 GB", "33 kB", "226 kB", "231 MB", "80 GB"),
    "docs/libraries/gymnax.md": ("11 MB",),
    "docs/libraries/index.md": ("11 MB",),
}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_has_the_figures_of_the_results(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == written(text)


def test_a_wrong_figure_is_mended() -> None:
    place = "scan / N = 64 / gymnax / ratio"
    assert written(f"{0}<!-- {place} -->") != f"{0}<!-- {place} -->"


def test_the_table_of_ids_is_generated() -> None:
    assert interop_table.PAGE.read_text(encoding="utf-8") == "\n".join(interop_table.page()) + "\n"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_figure_stands_without_its_source(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for pattern in (r"^```.*?^```", r"<!-- begin .*?<!-- end -->"):
        text = re.sub(pattern, "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`]*`", "", FIGURE.sub("", text))
    for known in DEFINED.get(str(path.relative_to(ROOT)), ()):
        text = text.replace(known, "")
    assert path == interop_table.PAGE or not MEASURED.findall(text)
