"""
The reference: of mkdocs (`hooks` in mkdocs.yml) and of griffe (`extensions`), which reads the code.

A page of the reference is a list of names, which the site fills with their docstrings. `options` at
the head of a page are those of every name that has none of its own.
"""

import json
import re
from pathlib import Path
from typing import Any

import griffe

WITHOUT_OPTIONS = re.compile(r"^::: \S+$(?!\n    options:)", re.MULTILINE)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    options = page.meta.get("options", {})
    lines = [f"      {key}: {json.dumps(value)}" for key, value in options.items()]
    with_options = "\n".join([r"\g<0>", "    options:", *lines])
    return WITHOUT_OPTIONS.sub(with_options, markdown) if lines else markdown


def on_post_build(config: Any, **_: Any) -> None:
    """The search shows classes of states last."""
    path = Path(config.site_dir) / "search/search_index.json"
    index = json.loads(path.read_text(encoding="utf-8"))
    for entry in index["docs"]:
        entry |= {"boost": 0.01} if entry["title"].endswith("State") else {}
    path.write_text(json.dumps(index, separators=(",", ":")), encoding="utf-8")


class PublicBases(griffe.Extension):
    """In place of a private base class, its own bases are shown."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        for module in [pkg, *_submodules(pkg)]:
            for cls in module.classes.values():
                if not cls.is_alias:
                    cls.bases = [shown for base in cls.bases for shown in _public(cls, base)]


def _submodules(module: griffe.Module) -> list[griffe.Module]:
    inner = [each for each in module.modules.values() if not each.is_alias]
    return inner + [deeper for each in inner for deeper in _submodules(each)]


def _public(cls: griffe.Class, base: Any) -> list[Any]:
    path = getattr(base, "canonical_path", str(base))
    if not path.rpartition(".")[2].startswith("_"):
        return [base]
    return cls.modules_collection[path].bases
