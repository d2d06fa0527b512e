"""
`llms.txt` for coding agents, from the site's own index (`hooks` in mkdocs.yml).

It lists the pages with the first sentence of each; `llms-full.txt` has their text. The form is that
of https://llmstxt.org. The plugins for it want a public address, and the pages listed once more.
"""

import itertools
import re
from collections.abc import Iterator
from typing import Any

LINK = re.compile(r"!?\[([^]]*)\](\([^)]*\)|\[[^]]*\])")
PROSE = re.compile(r"^(?!```)(?:[A-Za-z`*[]|\d+ )")
PAGES: list[Any] = []  # of the index, in its order


def on_nav(nav: Any, **_: Any) -> None:
    PAGES[:] = nav.pages


def on_env(env: Any, config: Any, files: Any) -> Any:
    from mkdocs.structure.files import File

    index = "\n".join([f"# {config.site_name}\n\n> {config.site_description}", *sections()])
    full = "\n\n".join(page.markdown for page in PAGES)
    for name, text in (("llms.txt", f"{index}\n"), ("llms-full.txt", full)):
        files.append(File.generated(config, name, content=text))
    return env


def sections() -> Iterator[str]:
    """The lines of `llms.txt`: a list of pages for each section of the index."""
    named = itertools.groupby(PAGES, lambda page: page.ancestors and page.ancestors[-1].title)
    for section, pages in named:
        yield f"\n## {section or 'Start'}\n"
        for page in pages:
            address = page.canonical_url or page.url or "./"
            yield f"- [{page.title}]({address}): {first_sentence(page.markdown)}".rstrip(": ")


def first_sentence(markdown: str) -> str:
    """The first sentence of a page, without links; empty if it has no text of its own."""
    for block in markdown.split("\n\n"):
        text = LINK.sub(r"\1", " ".join(block.split())).replace("**", "")
        if PROSE.match(block) and PROSE.match(text):
            return re.split(r"(?<=[.:])\s", text)[0].rstrip(":").rstrip(".") + "."
    return ""
