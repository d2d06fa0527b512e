"""
`llms.txt` for coding agents, from the site's own index (`hooks` in mkdocs.yml).

It lists the pages with the first sentence of each; `llms-full.txt` has their text. The form is that
of https://llmstxt.org.
"""

import re
from collections.abc import Iterator
from typing import Any

LINK = re.compile(r"!?\[([^]]*)\](\([^)]*\)|\[[^]]*\])")
PROSE = re.compile(r"^(?!```)(?:[A-Za-z`*[]|\d+ )")


def on_env(env: Any, config: Any, files: Any) -> Any:
    from mkdocs.structure.files import File

    pages = list(in_order(files))
    texts = {
        "llms.txt": index(config.site_name, config.site_description, pages),
        "llms-full.txt": "\n\n".join(page.markdown for page in pages),
    }
    for name, text in texts.items():
        files.append(File.generated(config, name, content=text))
    return env


def in_order(files: Any) -> Iterator[Any]:
    """The pages of the index, in its order."""
    pages = [file.page for file in files.documentation_pages()]
    page = next(page for page in pages if page.next_page and not page.previous_page)
    while page:
        yield page
        page = page.next_page


def index(name: str, about: str, pages: list[Any]) -> str:
    """The text of `llms.txt`: a list of pages for each section of the index."""
    lines = [f"# {name}", "", f"> {about}"]
    section = None
    for page in pages:
        inside = page.ancestors[-1].title if page.ancestors else "Start"
        if inside != section:
            section = inside
            lines += ["", f"## {section}", ""]
        sentence = first_sentence(page.markdown)
        address = page.canonical_url or page.url or "./"
        lines.append(f"- [{page.title}]({address}){f': {sentence}' if sentence else ''}")
    return "\n".join(lines) + "\n"


def first_sentence(markdown: str) -> str:
    """The first sentence of a page, without links; empty if it has no text of its own."""
    for block in markdown.split("\n\n"):
        text = LINK.sub(r"\1", " ".join(block.split())).replace("**", "")
        if PROSE.match(block) and PROSE.match(text):
            return re.split(r"(?<=[.:])\s", text)[0].rstrip(":").rstrip(".") + "."
    return ""
