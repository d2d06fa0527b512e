"""
Write the notebooks in `docs/notebooks`, from pages of the documentation.

    python .ci/notebooks.py

A `python` block becomes a cell, and the `text` block that follows it its output; the rest is text.
Where `[project.urls]` in pyproject.toml has the repository, links lead there, and Colab opens them.
"""

import itertools
import re
import tomllib
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any
from urllib.parse import urlsplit

import nbformat
from nbformat import v4

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "docs/notebooks"
LEFT_OUT = ("Install", "Next")  # sections: a cell installs, and what comes next is on the site
NOTEBOOKS = {  # what each is made of: a page in `docs`, and extras of envrax
    "first-environment": ("tutorials/first-environment.md", ""),
    "train": ("getting-started.md", ""),
    "randomise": ("advanced/domain-randomization.md", ""),
    "any-library": ("libraries/index.md", "[gymnax,navix,pgx]"),
}
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
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
    files = dict[str, str]()
    for name in NOTEBOOKS:
        notebook = v4.new_notebook(cells=cells(name, address), metadata={"kernelspec": KERNEL})
        files[f"{name}.ipynb"] = nbformat.writes(notebook) + "\n"
    return files


def cells(name: str, address: str) -> list[Any]:
    """The cells of a notebook, each of which prints what the page shows."""
    page, extras = NOTEBOOKS[name]
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL).strip()
    text = re.sub(r"^from parking import .*$", lambda _: _parking(), text, flags=re.MULTILINE)
    text = re.sub(rf"^## (?:{'|'.join(LEFT_OUT)})\n.*?(?=^## |\Z)", "", text, flags=re.M | re.S)
    title, _, text = text.partition("\n")
    title += _made_from(name, page, address)
    found = [v4.new_markdown_cell(title), v4.new_code_cell(_install(extras, address))]
    blocks = re.split(r"^```(python|text)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    for words, kind, block in itertools.zip_longest(*(blocks[k::3] for k in range(3))):
        if words.strip():
            found.append(v4.new_markdown_cell(_linked(words.strip(), page, address)))
        if kind == "python":
            found.append(v4.new_code_cell(block.rstrip("\n")))
        elif kind == "text":
            found[-1].outputs = [v4.new_output("stream", text=block)]
    for place, cell in enumerate(found):
        cell.id = f"cell-{place}"  # which is random
    return found


def _parking() -> str:
    """What `parking.py` holds: the first block of Getting started."""
    text = (ROOT / "docs/getting-started.md").read_text(encoding="utf-8")
    return text.partition("```python\n")[2].partition("\n```")[0]


def _made_from(name: str, path: str, address: str) -> str:
    page = _linked(f"[this page]({path})", "", address)
    told = f"\n\nMade from {page} by `python .ci/notebooks.py`; edit the page."
    if address:
        where = f"{urlsplit(address).path}/blob/main/{FOLDER}/{name}.ipynb"
        told += f" [Open it in Colab](https://colab.research.google.com/github{where})."
    return told


def _install(extras: str, address: str) -> str:
    needs = "navix" if extras else "envrax"
    install = f'{FROM_A_CLONE} "{{clone}}{extras}"'
    if address:
        install = f'%pip install --quiet "envrax{extras} @ git+{address}"'
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


if __name__ == "__main__":
    main()
