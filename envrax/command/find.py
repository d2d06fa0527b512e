"""The ids with all words, such as pixels, discrete, learned, atari, or a part of their name."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from envrax._checks.packages import how_to_install
from envrax.command.list import NO_SPRITES
from envrax.libraries import known, missing_libraries, without_sprites
from envrax.libraries.cards import described, docstring, ids
from envrax.registry import find_ids, get_spec

# What the filter of the site chooses by: the words of each facet, and what the site calls them.
FACETS = {
    "agents": {"single-agent": "one", "multi-agent": "several"},
    "observations": {x: x for x in ("vector", "grid", "pixels")} | {"arrays": "several arrays"},
    "actions": {x: x for x in ("discrete", "continuous")} | {"mixed": "several"},
    "learned": {
        "learned": "solved or learns",
        "solved": "solved",
        "learns": "learns",
        "unlearned": "does not learn",
        "untried": "not tried",
    },
}
_LEARNED = {
    "solved": ["learned", "solved"],
    "learns": ["learned", "learns"],
    "does not learn": ["unlearned"],
}


def arguments(add: Callable[..., Any]) -> None:
    choices = "; ".join(f"{name}: {', '.join(words)}" for name, words in FACETS.items())
    add(
        "words", nargs="+", metavar="word", help=f"a part of the name, atari, physics, or {choices}"
    )


def run(given: Any) -> int:
    print(*_found(given.words), sep="\n")
    return 0


def _found(chosen: Sequence[str]) -> Iterator[str]:
    """One line for each id that has all words or is similar, and how to install its suite."""
    missing, bare = missing_libraries(), without_sprites()
    hits = {word: _ids_with(word) or find_ids(word) for word in chosen}
    found = _in_all(hits.values())
    for name in found:
        prefix = name.partition("/")[0]
        status = how_to_install(prefix) if prefix in missing else "installed"
        if prefix in bare:
            status += f", {NO_SPRITES}"
        yield f"{name:<40}  {status}"
    if not found:
        yield "none: `python -m envrax find --help` shows the words, `list` the suites"
        for word in hits:
            others = len(_in_all(x for other, x in hits.items() if other != word))
            yield from [f"without {word}: {others}"] * bool(others)


def _in_all(hits: Any) -> list[str]:
    first, *others = [*hits] or [[]]
    return [id for id in first if all(id in other for other in others)]


def _ids_with(word: str) -> list[str]:
    return [id for id in ids() if word.lower() in words(id)]


def words(id: str) -> list[str]:
    """Those by which an id is found beside its name: its facets, and such as atari."""
    return [word for found in facets(id).values() for word in found] + described(id).get(
        "words", []
    )


@cache
def facets(id: str) -> dict[str, list[str]]:
    """The words of each facet that an id has; none of a space that is not known."""
    row = known()[id]
    observations, action = row.get("obs", ""), row.get("action", "")
    kind = "continuous" if "Box float" in action else "discrete"
    is_one = re.match(r"(\d+ x )?(Box|Discrete)", action)
    agents = {"single-agent": "agents" not in row, "multi-agent": "agents" in row or "world" in row}
    return {
        "agents": [word for word, has in agents.items() if has],
        "observations": [kind_of(observations, _meaning(id))] if observations else [],
        "actions": [kind if is_one else "mixed"] if action else [],
        "learned": _LEARNED.get(row.get("learned", ""), ["untried"]),
    }


def kind_of(space: str, meaning: str) -> str:
    """
    Of an observation: several arrays, pixels, a grid or a vector.

    Pixels have two axes of 30 or more, or are uint8 and called an image where it is said what they
    are; a grid has two axes or more; a vector has one.
    """
    if space.startswith(("{", "(")) or "arrays" in space or " x {" in space:
        return "arrays"
    sizes = [int(size) for size in re.findall(r"\d+", space.partition("[")[2])]
    if sum(size >= 30 for size in sizes) >= 2 or ("uint8" in space and "image" in meaning):
        return "pixels"
    return "grid" if len(sizes) > 1 else "vector"


def _meaning(id: str) -> str:
    return described(id).get("observations") or docstring(get_spec(id).env_class)
