"""What the check of the built site finds, and what the pages are made of."""

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
SITE = runpy.run_path(str(ROOT / ".ci/site.py"))
BROWSER = next(filter(None, map(shutil.which, SITE["BROWSERS"])), None)
PAGE = "<!doctype html><meta name=viewport content='width=device-width'><body>{}</body>"


def site(folder: Path, **pages: str) -> Path:
    """A site of these pages, whose search finds what it should."""
    entries = [
        {"location": address, "title": query, "text": ""}
        for query, address in SITE["FOUND"].items()
    ]
    for path, text in pages.items():
        (folder / path).mkdir(parents=True)
        (folder / path / "index.html").write_text(PAGE.format(text), encoding="utf-8")
    (folder / "search").mkdir()
    (folder / "search/search_index.json").write_text(json.dumps({"docs": entries}))
    return folder


def check(folder: Path) -> list[str]:
    """The lines that the check prints."""
    run = [sys.executable, ROOT / ".ci/site.py", folder]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        ('<script src="https://cdn.example/a.js"></script>', True),
        ('<img alt="" src="//cdn.example/a.png">', True),
        ('<script src="../a.js"></script><a href="https://example.org">a</a>', False),
    ],
)
def test_what_a_page_loads_from_elsewhere_is_found(
    text: str, is_wrong: bool, tmp_path: Path
) -> None:
    assert bool([*SITE["loaded_from_elsewhere"](site(tmp_path, page=text))]) == is_wrong


def test_a_query_that_no_tag_or_title_of_its_page_has_is_found(tmp_path: Path) -> None:
    built = site(tmp_path)
    assert [*SITE["not_tagged"](built)] == []
    index = built / "search/search_index.json"
    index.write_text(index.read_text().replace("error bars", "errors"))
    [said] = SITE["not_tagged"](built)
    assert "'error bars'" in said
    index.write_text(
        index.read_text().replace("errors", "error bars").replace("curriculum", "AState")
    )
    assert len([*SITE["not_tagged"](built)]) == 2  # curriculum, and a state that is not last


def test_each_page_with_tags_is_looked_for() -> None:
    pages = [
        path for path in DOCS.rglob("*.md") if path.read_text("utf-8").startswith("---\ntags:")
    ]
    addresses = {
        f"{path.relative_to(DOCS).with_suffix('').as_posix()}/".removesuffix("index/")
        for path in pages
    }
    assert len(addresses) >= 10
    assert addresses <= {*SITE["FOUND"].values()}


@pytest.mark.parametrize(
    ("urls", "known"),
    [
        ({}, {"site_url": None}),
        (
            {"Repository": "https://example.org/a/b", "Issues": "https://example.org/a/b/issues"},
            {
                "site_url": None,
                "repo_url": "https://example.org/a/b",
                "repo_name": "a/b",
                "edit_uri": "edit/main/docs/",
                "extra": {
                    "social": [
                        {
                            "icon": "material/bug",
                            "link": "https://example.org/a/b/issues",
                            "name": "Issues",
                        }
                    ]
                },
            },
        ),
    ],
)
def test_the_site_links_to_the_source_where_its_address_is_known(
    urls: dict[str, str], known: dict[str, object], tmp_path: Path
) -> None:
    hook = runpy.run_path(str(ROOT / ".ci/public_address.py"))["on_config"]
    lines = [f'{name} = "{url}"\n' for name, url in urls.items()]
    (tmp_path / "pyproject.toml").write_text(f"[project.urls]\n{''.join(lines)}")
    hook.__globals__["PYPROJECT"] = tmp_path / "pyproject.toml"
    assert {"extra": {}, **vars(hook(SimpleNamespace(extra={})))} == {"extra": {}, **known}


@pytest.mark.slow
def test_the_check_opens_pages_where_there_is_a_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = "<div class=language-console><pre><code>{}</code></pre></div>"
    style = "<style>[data-md-copying] .gp { display: none }</style>"
    pages = {
        "good": style + console.format("<span class=gp>$ </span>ls"),
        "wide": "<p style='width: 900px'>a</p>",
        "scrolled": "<div style='overflow: auto'><p style='width: 900px'>a</p></div>",
        "narrow": "<table><td style='width: 1px; word-break: break-all'>gymnastics</td></table>",
        "copied": console.format("$ ls"),
    }
    content = {name: f"<div class=md-content>{text}</div>" for name, text in pages.items()}
    search = "<input class=md-search__input><a class=md-search-result__item></a>"
    built = site(tmp_path, **{**content, "with-search": search})
    if BROWSER is None:
        assert check(built) == ["NOTE: no Chromium here; no page is opened.", "0 faults in 6 pages"]
        return
    monkeypatch.setitem(SITE["seen"].__globals__, "FOUND", {"recompile": "traps/"})
    said = SITE["seen"](built, BROWSER)
    found = {line.partition(":")[0].strip("/") for line in said}
    assert found == {"wide", "narrow", "copied", "search"}, said
