"""Every Python block in README and the documentation runs, and prints what the page shows."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import re
import sys
from pathlib import Path
from typing import Any

import jax
import pytest
from interop.sprites import installed_sprites
from sybil import Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

import envrax
import envrax.libraries
import envrax.testing
import envrax.wrappers.vector

ROOT = Path(__file__).resolve().parent.parent.parent
# From this heading on a page needs other libraries: that is a test of its own.
SPLIT = {
    "docs/trainers/others.md": "## RLlib",
    "docs/trainers/pufferlib.md": "## Its trainer",
    "docs/tutorials/configuration.md": "## From tyro, Hydra or OmegaConf",
}
PAGES = [
    *(
        str(page.relative_to(ROOT))
        for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
        for page in ROOT.glob(pattern)
    ),
    *(page + heading for page, heading in SPLIT.items()),
]


class Shown:
    """Runs the `python` blocks of a page; compares a `text` block with what was printed before."""

    def __init__(self, library_prints: bool) -> None:
        self.printed, self.run = io.StringIO(), PythonEvaluator()
        self.library_prints = library_prints

    def python(self, example: Any) -> None:
        with contextlib.redirect_stdout(self.printed):
            self.run(example)

    def text(self, example: Any) -> None:
        printed = self.take()
        if self.library_prints:
            printed = printed[-len(example.parsed) :]
        assert printed == example.parsed

    def take(self) -> str:
        printed = self.printed.getvalue()
        self.printed.seek(0)
        self.printed.truncate()
        return printed


# They check whole environments, or train, or compile much.
SLOW = ("docs/advanced/", "docs/getting-started.md")
INTEROP = ("docs/libraries/",)  # they need the libraries
APART = ("docs/libraries/kinetix", "docs/libraries/popgym")
TIERS = {
    APART: pytest.mark.apart,
    INTEROP: pytest.mark.interop,
    (
        "docs/trainers/others.md#",
        "docs/trainers/pufferlib.md#",
        "docs/trainers/mjlab",
    ): pytest.mark.nightly,
    ("docs/trainers/jax",): pytest.mark.jaxrl,
    ("docs/trainers/", "docs/tutorials/configuration.md#"): pytest.mark.trainers,
}
# Libraries that print when they are imported, by the ends of pages; JaxMARL also sets `sys.stdout`.
PRINTING = {"/jaxmarl.md": "envrax.interop.jaxmarl", "docs/trainers/jax.md": "mujoco.mjx"}
# Whose library prints tables when an environment is made: the page shows what follows them.
TABLES = ("docs/trainers/mjlab.md",)


def tier(page: str) -> list[Any]:
    """One page runs by default: what breaks all of them breaks it too."""
    if page == "docs/tutorials/spaces.md":
        return []
    for pages, libraries in TIERS.items():
        if page.startswith(pages):  # libraries warn when they are imported
            return [libraries, pytest.mark.filterwarnings("ignore")]
    return [pytest.mark.slow if page.startswith(SLOW) else pytest.mark.integration]


@pytest.mark.parametrize("page", [pytest.param(page, marks=tier(page)) for page in sorted(PAGES)])
def test_a_page_runs_and_prints_what_it_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if not page.startswith(INTEROP):  # the suite of a library registers itself once in a process
        request.getfixturevalue("clean_registry")
    for end, library in PRINTING.items():
        if page.endswith(end):
            importlib.import_module(library)
    monkeypatch.chdir(tmp_path)
    write_parking(tmp_path, monkeypatch)
    shown = Shown(page in TABLES)
    parsers = [CodeBlockParser(x, getattr(shown, x)) for x in ("python", "text")]
    needs_sprites = page.endswith("jaxtari.md")
    sprites = installed_sprites(tmp_path) if needs_sprites else contextlib.nullcontext()
    with jax.numpy_dtype_promotion("standard"), sprites:  # promotion as users have it
        for example in blocks(page, parsers):
            if page == "README.md":  # each of its blocks may be copied alone
                example.namespace.clear()
            example.evaluate()
    assert not shown.take(), "the page does not show what its last blocks printed"


def write_parking(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`parking.py`, which later pages import: the first block of Getting started."""
    block = read("docs/getting-started.md").partition("```python\n")[2].partition("\n```")[0]
    (folder / "parking.py").write_text(f"{block}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "parking", raising=False)


def blocks(page: str, parsers: list[Any]) -> list[Any]:
    """The blocks of a page; of one in `SPLIT`, those before the heading or those after it."""
    path, later, _ = page.partition("##")
    found = Sybil(parsers, path=str(ROOT)).parse(ROOT / path).examples()
    if path not in SPLIT:
        return [*found]
    line = read(path).partition(f"{SPLIT[path]}\n")[0].count("\n")
    return [example for example in found if (example.line > line) == bool(later)]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


MESSAGES = "tests/error_messages.md"


def error_rows() -> list[Any]:
    row = r"^\| `(.+?)` \| `` (.+) `` \|$"
    rows = re.findall(row, read("docs/errors.md") + read(MESSAGES), re.MULTILINE)
    libraries = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]
    return [
        pytest.param(
            *row, id=row[0], marks=libraries if re.search("playground/|brax/", row[0]) else []
        )
        for row in rows
    ]


@pytest.fixture(scope="module")
def typed() -> dict[str, Any]:
    page = Sybil([CodeBlockParser("python", PythonEvaluator())]).parse(ROOT / MESSAGES)
    for example in page.examples():
        example.evaluate()
    return page.namespace


@pytest.mark.parametrize(("code", "message"), error_rows())
def test_bad_input_gets_the_message_that_is_written_down(
    code: str, message: str, typed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(envrax.libraries, "is_installed", lambda package: False)  # no other library
    message = message.replace("LIBRARIES", ", ".join(envrax.libraries.missing_libraries()))
    with pytest.raises(Exception) as raised:  # the whole message is compared
        eval(code, typed)
    assert f"{raised.type.__name__}: {raised.value}" == message


def test_every_known_pitfall_has_its_test() -> None:
    named = re.findall(r"`(\w+/test_\w+\.py)::(test_\w+)`", read("tests/known_pitfalls.md"))
    assert len(named) > 25
    for file, test in named:
        assert f"\ndef {test}(" in read(f"tests/{file}"), test


def test_the_reference_has_every_public_name() -> None:
    pages = "\n".join(read(str(page)) for page in (ROOT / "docs/reference").glob("*.md"))
    listed = {path.rpartition(".")[2] for path in re.findall(r"^::: envrax\.(\S+)$", pages, re.M)}
    public = {*envrax.__all__, *envrax.autoreset.__all__, *envrax.testing.__all__}
    assert public - listed == {"__version__", "spaces", "wrappers"}


def test_the_tutorial_names_every_wrapper() -> None:
    homes = {"envrax": envrax.wrappers, "envrax.wrappers.vector": envrax.wrappers.vector}
    assert set(re.findall(r"\]\[(envrax[\w.]+)\]", read("docs/tutorials/wrappers.md"))) >= {
        f"{home}.{name}"
        for home, module in homes.items()
        for name, wrapper in vars(module).items()
        if name in module.__all__ and inspect.isclass(wrapper)
        if issubclass(wrapper, envrax.Wrapper | envrax.wrappers.vector.BatchedWrapper)
        if not name.endswith("Wrapper") or name == "JitWrapper"  # the others are bases
    }
