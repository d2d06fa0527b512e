"""Let a browser load a page's pictures when they are scrolled to (`hooks` in mkdocs.yml)."""

from typing import Any


def on_page_content(html: str, **_: Any) -> str:
    return html.replace("<img ", '<img loading="lazy" ')
