"""The ids that contain a word or are similar, installed or not, such as those of cartpole."""

from collections.abc import Callable, Iterator
from typing import Any

from envrax._checks.packages import how_to_install
from envrax.command.list import NO_SPRITES
from envrax.libraries import missing_libraries, without_sprites
from envrax.registry import find_ids


def arguments(add: Callable[..., Any]) -> None:
    add("word")


def run(given: Any) -> int:
    print(*_found(given.word), sep="\n")
    return 0


def _found(word: str) -> Iterator[str]:
    """One line for each id that contains a word or is similar, and how to install its suite."""
    missing, bare = missing_libraries(), without_sprites()
    ids = find_ids(word)
    for name in ids:
        prefix = name.partition("/")[0]
        status = how_to_install(prefix) if prefix in missing else "installed"
        if prefix in bare:
            status += f", {NO_SPRITES}"
        yield f"{name:<40}  {status}"
    if not ids:
        yield "none: `python -m envrax list` shows the suites"
