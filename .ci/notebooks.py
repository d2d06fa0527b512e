"""
Write the notebooks in `docs/notebooks`, from pages of the documentation.

    python .ci/notebooks.py

A `python` block becomes a cell, and the `text` block that follows it its output; the rest is text.
Where `[project.urls]` in pyproject.toml has the repository, links lead there, and Colab opens them.
"""

import itertools
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "docs/notebooks"
LEFT_OUT = ("Install", "Next")  # sections: a cell installs, and what comes next is on the site


@dataclass(frozen=True)
class Source:
    """
    What a notebook is made of.

    Attributes
    ----------
    page : str
        In `docs`.
    extras : str
        Of envrax, in brackets.
    """

    page: str
    extras: str = ""


NOTEBOOKS = {
    "first-environment": Source("tutorials/first-environment.md"),
    "train": Source("getting-started.md"),
    "randomise": Source("advanced/domain-randomization.md"),
    "any-library": Source("libraries/index.md", extras="[gymnax,navix,pgx]"),
}
INSTALL = """\
from importlib.util import find_spec

if not find_spec("{needs}"):
    {install}"""
FROM_A_CLONE = """\
clone = "../.."  # the folder of the repository, wherever it is
    %pip install --quiet"""


def main() -> None:
    (ROOT / FOLDER).mkdir(exist_ok=True)
    for name, text in notebooks(repository()).items():
        (ROOT / FOLDER / name).write_text(text, encoding="utf-8")


def repository() -> str:
    """The public address of the repository; empty where there is none yet."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project.get("urls", {}).get("Repository", "")


def notebooks(address: str) -> dict[str, str]:
    """The content of each file, by its name."""
    return {f"{name}.ipynb": _file(cells(name, address)) for name in NOTEBOOKS}


def cells(name: str, address: str) -> list[dict[str, Any]]:
    """The cells of a notebook, each of which prints what the page shows."""
    source = NOTEBOOKS[name]
    text = (ROOT / "docs" / source.page).read_text(encoding="utf-8")
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL).strip()
    text = re.sub(r"^from parking import .*$", lambda _: _parking(), text, flags=re.MULTILINE)
    text = re.sub(rf"^## (?:{'|'.join(LEFT_OUT)})\n.*?(?=^## |\Z)", "", text, flags=re.M | re.S)
    title, _, text = text.partition("\n")
    found = [_words(title + _made_from(name, source, address)), _code(_install(source, address))]
    blocks = re.split(r"^```(python|text)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    for words, kind, block in itertools.zip_longest(*(blocks[k::3] for k in range(3))):
        if words.strip():
            found.append(_words(_linked(words.strip(), source.page, address)))
        if kind == "python":
            found.append(_code(block.rstrip("\n")))
        elif kind == "text":
            found[-1]["outputs"] = [{"name": "stdout", "output_type": "stream", "text": block}]
    return found


def _parking() -> str:
    """What `parking.py` holds: the first block of Getting started."""
    text = (ROOT / "docs/getting-started.md").read_text(encoding="utf-8")
    return text.partition("```python\n")[2].partition("\n```")[0]


def _made_from(name: str, source: Source, address: str) -> str:
    page = _linked(f"[this page]({source.page})", "", address)
    told = f"\n\nMade from {page} by `python .ci/notebooks.py`; edit the page."
    if address:
        where = f"{urlsplit(address).path}/blob/main/{FOLDER}/{name}.ipynb"
        told += f" [Open it in Colab](https://colab.research.google.com/github{where})."
    return told


def _install(source: Source, address: str) -> str:
    needs = "navix" if source.extras else "envrax"
    install = f'{FROM_A_CLONE} "{{clone}}{source.extras}"'
    if address:
        install = f'%pip install --quiet "envrax{source.extras} @ git+{address}"'
    return INSTALL.format(needs=needs, install=install)


def _linked(text: str, page: str, address: str) -> str:
    """The same text, with links that work in a notebook."""

    def link(found: re.Match[str]) -> str:
        path = normpath(join("docs", dirname(page), found[2]))
        if not address:
            return f"{found[1]}({relpath(path, FOLDER)}"
        return f"{found[1]}({address}/{'raw' if found[1][0] == '!' else 'blob'}/main/{path}"

    text = re.sub(r"(?<!`)\[([^\]]+)\]\[envrax[\w.]*\]", r"\1", text)
    text = re.sub(r"(!?\[[^\]]*\])\((?!https?:|#)([^)]+)", link, text)
    return re.sub(r"(?<=\))\{[^}]*\}", "", text)


def _words(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def _code(text: str) -> dict[str, Any]:
    kind: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}}
    return {**kind, "outputs": [], "source": text}


def _file(found: list[dict[str, Any]]) -> str:
    """A notebook with one line for each cell."""
    lines = [json.dumps({"id": f"cell-{k}", **cell}) for k, cell in enumerate(found)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    more = {"metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return '{"cells": [\n' + ",\n".join(lines) + "\n],\n" + json.dumps(more)[1:] + "\n"


if __name__ == "__main__":
    main()
