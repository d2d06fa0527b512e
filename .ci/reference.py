"""
The reference: of mkdocs (`hooks` in mkdocs.yml) and of griffe (`extensions`), which reads the code.

A page of the reference is a list of names, which the site fills with their docstrings. `options` at
the head of a page are those of every name that has none of its own.
"""

import json
import re
from typing import Any

import griffe

WITHOUT_OPTIONS = re.compile(r"^::: \S+$(?!\n    options:)", re.MULTILINE)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    options = page.meta.get("options", {})
    lines = [f"      {key}: {json.dumps(value)}" for key, value in options.items()]
    with_options = "\n".join([r"\g<0>", "    options:", *lines])
    return WITHOUT_OPTIONS.sub(with_options, markdown) if lines else markdown


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
