"""The cards of the ids: in the package, in the terminal, on the site."""

import fnmatch
import json
import re
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import envrax
from benchmarks import evidence as results
from benchmarks.libraries import LIBRARIES, verdicts, with_adapter
from envrax.__main__ import main
from envrax.command.find import kind_of, words
from envrax.libraries import known, library_ids
from envrax.libraries.cards import about, bars, card, curve, described, descriptions, docstring, ids

ROOT = Path(__file__).resolve().parent.parent.parent
SITE = runpy.run_path(str(ROOT / ".ci/fill.py"))


def test_the_file_of_the_package_has_what_the_results_have() -> None:
    assert results.PATH.read_text(encoding="utf-8") == results.text()


def test_there_is_a_card_for_each_id_that_was_tried_and_for_no_other() -> None:
    tried = {id for library in LIBRARIES for id in verdicts(library) if " as a world" not in id}
    assert {*ids()} == tried
    assert tried >= {*library_ids()}


@pytest.mark.parametrize("library", with_adapter())
def test_each_id_is_described_and_each_pattern_is_of_some_id(library: str) -> None:
    said = {"about", "observations", "actions", "reward", "start", "ends", "version", "source"}
    for id in ids(library):
        found = described(id)
        assert {*found} - {"words"} == said and all(found.values()), id
        choices = re.fullmatch(r"(?:\d+ x )?Discrete\((\d+)\)", known()[id].get("action", ""))
        if isinstance(found["actions"], list) and "action" in known()[id]:
            assert choices and int(choices[1]) == len(found["actions"]), id
    for pattern in descriptions(library):
        assert fnmatch.filter(ids(library), f"{library}/{pattern}"), pattern


def test_a_later_pattern_adds_to_an_earlier_one_or_replaces_it() -> None:
    empty, random = (
        described("navix/Navix-Empty-5x5-v0"),
        described("navix/Navix-Empty-Random-5x5-v0"),
    )
    assert empty["about"] == random["about"] and empty["start"] != random["start"]
    assert described("classic/CartPole-v0") == described("nobody/has-it") == {}


def test_a_card_has_every_kind_of_evidence_or_says_that_there_is_none() -> None:
    always = {"learned", "speed", "checked", "lowered"}
    for id in ids():
        labels = Counter(label for label, _ in card(id))
        assert always <= {*labels}, id
        built = not dict(card(id))["checked"].startswith("not built")
        assert built == ({"time limit", "agents", "mask"} <= {*labels})
        assert all(
            n == 1 for label, n in labels.items() if label not in ("port of", "its own loop")
        )
        assert all(text for _, text in card(id))
    counts = Counter(label for id in ids() for label, _ in card(id))
    least = {"curve": 60, "its own loop": 20, "on an H100": 20, "port of": 30, "as a world": 20}
    assert all(counts[label] >= n for label, n in least.items()), counts


def test_no_card_shows_a_raw_error() -> None:
    text = json.dumps(known())
    assert not re.findall(r"\w*Error\b|urlopen|Errno|/tmp|/root", text)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_page_of_a_library_has_the_cards_with_places_of_their_own(library: str) -> None:
    page = (ROOT / f"docs/libraries/{library}.md").read_text(encoding="utf-8")
    assert page.count("<!-- fill cards -->\n> ") == 1 and "## Environments" in page
    html = SITE["cards"](library)
    places = re.findall(r'<h3 id="([^"]+)">', html)
    headings = [SITE["anchor"](f"/{x}") for x in re.findall(r"^#+ (.*)$", page, re.MULTILINE)]
    assert len({*places, *headings}) == len(ids(library)) + len(headings)
    assert html.count("<dt>about</dt>") + html.count("<strong>Reward</strong>") == len(places)
    assert html.count('<svg class="curve"') == sum(bool(curve(id)) for id in ids(library))


def test_the_page_of_all_ids_links_to_each_card() -> None:
    html = SITE["environments"]("environments")
    links = re.findall(r'href="\.\./([^/]+)/#([^"]+)"', html)
    assert links == [(id.partition("/")[0], SITE["anchor"](id)) for id in ids()]
    for name, choices in SITE["CHOICES"].items():  # each choice leaves some, and not all
        for value in choices:
            kept = [row for row in re.findall("<tr data-.*?>", html) if fits(row, name, value)]
            assert 0 < len(kept) < len(links), (name, value)


def fits(row: str, name: str, value: str) -> bool:
    """As docs/filter.js decides."""
    known = (re.findall(rf'data-{name}="([^"]*)"', row) or [""])[0]
    if name == "speed":
        return float(known or 0) >= float(value)
    return value in known.split("|")


def test_a_curve_has_a_scale() -> None:
    drawn = SITE["cards"]("gymnax").partition('id="cartpole-v1"')[2].partition("</svg>")[0]
    points = curve("gymnax/CartPole-v1")
    low, high = min(y for _, y in points), max(y for _, y in points)
    assert f">{low:,.4g}<" in drawn and f">{high:,.4g}<" in drawn and "M steps<" in drawn
    assert len(re.findall(r"[\d.]+,[\d.]+", drawn.partition('points="')[2])) == len(points)


def test_show_prints_the_card(capsys: pytest.CaptureFixture[str]) -> None:
    id = "classic/CartPole-v0"
    assert main(["show", id]) == 0
    printed = capsys.readouterr().out
    text = docstring(envrax.get_spec(id).env_class)
    assert printed.startswith(f"id            {id}\n\n{text}\n\nobservations  Box(")
    shown = " ".join(printed.split())
    lines = [pair for pair in card(id) if pair[0] not in ("agents", "time limit")]
    for label, text in [*lines[2:], *about("classic")]:
        assert f"{label} {text}" in shown
    assert "CartPoleConfig(max_steps=500," in shown and ": Masses in kg" in shown
    assert bars([y for _, y in curve(id)]) in shown


@pytest.mark.parametrize("name", [x for x in ids("classic") if "Catch" not in x])
def test_docstrings_of_classic_say_bounds_and_choices(name: str) -> None:
    env, text = envrax.make(name, pre_warm=False), docstring(envrax.get_spec(name).env_class)
    for fact in ("Reward", "Start", "Terminates", "Truncates", "Gymnasium"):
        assert f"- **{fact}**" in text
    assert f"`max_steps`, {env.config.max_steps}" in text
    choices = getattr(env.action_space, "n", 0)
    assert len(re.findall(r"^\| \d \| .", text, re.MULTILINE)) in (choices, 0)


def test_show_prints_the_card_of_a_library_that_is_not_installed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("envrax.command.show.missing_libraries", lambda: ["gymnax"])
    assert main(["show", "gymnax/CartPole-v1"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "install `pip install" in shown and "cite Robert Tjarko Lange" in shown
    assert all(f"{label} {text}" in shown for label, text in card("gymnax/CartPole-v1"))


@pytest.mark.parametrize(
    ("space", "meaning", "kind"),
    [
        ("Box float32[4]", "", "vector"),
        ("Box float32[10, 10, 4]", "an image", "grid"),
        ("Box uint8[128, 128, 3]", "", "pixels"),
        ("Box float32[30, 40, 3]", "planes of a court", "pixels"),
        ("Box uint8[25, 25, 3]", "for each cell its kind", "grid"),
        ("Box uint8[19, 19, 3]", "uint8 image of the maze", "pixels"),
        ("Box uint8[19, 19, 3]", "for each cell its kind", "grid"),
        ("MultiBinary bool[4, 64, 32]", "", "pixels"),
        ("{grid: Box int32[64, 64], step: Box int32[]}", "", "arrays"),
        ("13 arrays: a, b", "", "arrays"),
        ("2 x Box uint8[4, 5, 26]", "", "grid"),
        ("Discrete(16)", "", "vector"),
    ],
)
def test_kinds_of_observations(space: str, meaning: str, kind: str) -> None:
    assert kind_of(space, meaning) == kind


def test_find_takes_the_words_of_the_filter(capsys: pytest.CaptureFixture[str]) -> None:
    def found(*words: str) -> list[str]:
        assert main(["find", *words]) == 0
        return capsys.readouterr().out.splitlines()

    pixels = [line.split()[0] for line in found("pixels", "discrete", "learned")]
    assert "classic/Catch-v0" in pixels and not [id for id in pixels if id.startswith("navix/")]
    assert {id.partition("/")[0] for id in pixels} == {
        id.partition("/")[0] for id in ids() if {"pixels", "discrete", "learned"} <= {*words(id)}
    }
    assert len(found("atari", "pong")) == 1 and len(found("MULTI-AGENT", "chess")) == 2
    _, *hints = found("vector", "pixels", "solved")
    assert [hint.partition(":")[0] for hint in hints] == ["without vector", "without pixels"]


def test_places_that_show_the_results_say_where_they_are_in_the_repository() -> None:
    known = {*SITE["TABLES"], *SITE["PARTS"], *SITE["LISTS"]}
    used: set[Any] = set()
    for path in ROOT.glob("docs/**/*.md"):
        text = path.read_text(encoding="utf-8")
        marks = re.findall(r"<!-- fill (\w+) -->", text)
        assert len(re.findall(r"<!-- fill \w+ -->\n> \S", text)) == len(marks), path
        used |= {*marks}
    assert used == known
