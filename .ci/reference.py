"""
The reference: of mkdocs (`hooks` in mkdocs.yml) and of griffe (`extensions`), which reads the code.

A page of the reference is a list of names, which the site fills with their docstrings. Read as a
file it says so, in a line that the site leaves out.
"""

from typing import Any

import griffe

AS_FILE = "> The site fills this list with the docstrings; `help(...)` in Python shows them too.\n"


def on_page_markdown(markdown: str, **_: Any) -> str:
    return markdown.replace(AS_FILE, "")


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
