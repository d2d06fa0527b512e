"""What libraries really do: the file, the pages and the cards that are made of it."""

import fnmatch
import re
import runpy
from pathlib import Path

import pytest

from envrax.libraries.cards import card, faults, ids, surprises, told

ROOT = Path(__file__).resolve().parent.parent.parent
SITE = runpy.run_path(str(ROOT / ".ci/fill.py"))
FIELDS = {"name", "version", "what", "here"}
ALL = [x for found in surprises().values() for x in found]

TESTS = [x[field] for x in ALL for field in ("test", "still") if field in x]


def test_each_has_its_fields_and_a_name_of_its_own() -> None:
    assert len({x["name"] for x in ALL}) == len(ALL) > 84
    for x in ALL:
        assert FIELDS <= {*x} <= FIELDS | {"ids", "instead", "test", "still"} and all(x.values()), x
        assert x["here"] in ("mended", "checked", "said", "does not reach"), x
        assert re.fullmatch("[a-z0-9-]+", x["name"]), x
        assert all(text.endswith(".") for text in told_in(x)), x
        assert "test" in x or x["here"] != "mended", x


def told_in(x: dict[str, str]) -> list[str]:
    return [x[field] for field in ("what", "instead") if field in x]


@pytest.mark.parametrize("named", TESTS)
def test_each_test_is_there(named: str) -> None:
    path, _, test = named.partition("::")
    assert f"\ndef {test}(" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("library", [x for x in surprises() if faults(x)])
def test_those_of_ids_stand_on_the_page_and_on_the_cards(library: str) -> None:
    page = (ROOT / f"docs/libraries/{library}.md").read_text(encoding="utf-8")
    assert "## Faults\n\n<!-- fill faults -->\n> " in page
    listed = "\n".join(SITE["LISTS"]["faults"](library))
    for x in faults(library):
        assert told(x) in listed
        for id in fnmatch.filter(ids(library), f"{library}/{x['ids']}"):
            assert told(x) in dict(card(id))["faults"]
        assert library in ("elsewhere", "stoa") or fnmatch.filter(ids(library), f"*/{x['ids']}"), x


def test_faults_are_data() -> None:
    for path in (ROOT / "docs/libraries").glob("*.md"):
        for below in re.findall("^## Faults.*\n\n(.*)$", path.read_text("utf-8"), re.MULTILINE):
            assert below == "<!-- fill faults -->" and faults(path.stem), path


def test_the_page_has_all_of_them() -> None:
    page = "\n".join(SITE["LISTS"]["surprises"]("surprises"))
    assert all(told(x) in page for x in ALL)
