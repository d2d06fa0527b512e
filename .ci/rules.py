"""
The tables of rules in the reference, from the docstrings of the rules (`hooks` in mkdocs.yml).

A line of `docs/reference/testing.md` says so, and is replaced in the site.
"""

from collections.abc import Iterable, Iterator
from typing import Any

AS_FILE = "> The site lists the rules here, with the docstrings in `envrax/testing/rules`.\n"


def on_page_markdown(markdown: str, **_: Any) -> str:
    return markdown.replace(AS_FILE, tables()) if AS_FILE in markdown else markdown


def tables() -> str:
    """The rules of an environment, those of a world, and those of a batch."""
    from envrax.testing.rules import BATCHED_RULES, ENV_RULES, WORLD_RULES

    names = {rule.name for rule in ENV_RULES}
    own = [rule for rule in BATCHED_RULES if rule.name not in names]
    shared = ", ".join(f"`{rule.name}`" for rule in BATCHED_RULES if rule.name in names)
    lines = [
        *_table("rule of `check_env`", ENV_RULES),
        *_table("rule for several agents", WORLD_RULES),
        *_table("rule of `check_batched_env`", own),
        f"`check_batched_env` also checks {shared}.",
    ]
    return "\n".join(lines) + "\n"


def _table(title: str, rules: Iterable[Any]) -> Iterator[str]:
    yield from (f"| {title} | what it checks |", "|---|---|")
    for rule in rules:
        yield f"| `{rule.name}` | {rule.sentence} |"
    yield ""
