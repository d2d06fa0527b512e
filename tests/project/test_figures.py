"""Every figure in README and the documentation is one of `benchmarks/results`."""

import platform
import re
import tomllib
from pathlib import Path

import pytest

from benchmarks.files import read
from benchmarks.measure import processor
from benchmarks.pages import LISTED, PAGES, ROOT, change_figures, places_of, written

# A number with a unit of measured time, a ratio, or a cell of a table with decimals.
MEASURED = re.compile(
    r"\d (?:times|µs|ms|ns|s|seconds|minutes|%|kB|MB|GB)\b|\| *-?[\d,]*\.\d+ *(?=\|)"
)
# What is no measurement of ours: a definition, a version, a size that follows from a shape.
DEFINED = {
    "docs/advanced/sharding.md": ("16 MB", "34 GB"),
    "docs/advanced/speed.md": ("8 µs", "82 s", "25 minutes"),  # others measured the first two
    "docs/libraries/tried.md": ("95 %",),
}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_has_the_figures_of_the_results(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == written(text, places_of(path))


TABLE = """<!-- figures -->

| N = 1 | median |
|---|---|
| {}, `7`, 3 | {} µs, 4 |
"""


def test_a_wrong_figure_is_mended() -> None:
    row = read("scan")["tables"]["CartPole, N = 64, rollout"]["gymnax"]
    right = TABLE.format(f"{row['ratio']:.1f}", f"{row['median']:.0f}")
    listed = ["scan / N = 64 / gymnax / ratio | - | median"]
    assert written(TABLE.format("0.0", "0"), listed) == right == written(right, listed)


@pytest.mark.parametrize("place", ["scan / N = 64 / gymnax / no", "scan / N = / gymnax / ratio"])
def test_a_place_that_is_not_one_of_the_results_is_an_error(place: str) -> None:
    with pytest.raises(KeyError, match="expected one name"):
        written("<!-- figures -->\n\n1.0 times", [place])


def test_each_place_has_a_number() -> None:
    with pytest.raises(ValueError, match="expected a number for each"):
        written("<!-- figures -->\n\ntimes\n\n1.0", [PLACE])


def test_the_file_of_places_names_pages() -> None:
    listed = tomllib.loads(LISTED.read_text(encoding="utf-8"))
    assert {*listed} <= {path.relative_to(ROOT).as_posix() for path in PAGES}


PLACE = "scan / N = 64 / gymnax / ratio"


def test_places_beside_the_page_are_those_of_its_comments_in_order() -> None:
    page = "<!-- figures -->\n\n{} times\n\n<!-- figures --> {}"
    rows = {n: read("scan")["tables"][f"CartPole, N = {n}, rollout"]["gymnax"] for n in (64, 4096)}
    first, last = f"{rows[64]['ratio']:.1f}", f"{rows[4096]['ratio']:.2f}"
    listed = [PLACE, "scan / N = 4096 / gymnax / ratio"]
    right = page.format(first, last)
    assert written(page.format("0.0", "0.00"), listed) == right


@pytest.mark.parametrize(
    ("page", "listed", "message"),
    [
        ("<!-- figures -->\n\n1.0 times", [], "expected places of '1.0 times'"),
        ("1.0 times", [PLACE], "expected a comment `<!-- figures -->` for each"),
    ],
)
def test_comments_without_places_and_places_without_a_comment_are_errors(
    page: str, listed: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        written(page, listed)


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        ("model name\t: AMD EPYC\nflags\t\t: fpu avx2 avx512f\n", "AMD EPYC with AVX-512"),
        ("model name\t: Xeon, 2 GHz\nflags\t\t: fpu avx2\n", "Xeon 2 GHz with AVX2"),
        ("processor\t: 0\n", platform.machine()),
    ],
)
def test_a_result_names_the_processor(cpuinfo: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    assert processor(tmp_path / "cpuinfo") == name
    assert processor(tmp_path / "none")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_figure_stands_without_its_source(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`]*`", "", change_figures(text, lambda figure, place: "", places_of(path)))
    for known in DEFINED.get(str(path.relative_to(ROOT)), ()):
        text = text.replace(known, "")
    assert not MEASURED.findall(text)
