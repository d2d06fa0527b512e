"""Ids that are like a word, for messages and `envrax.registry.find`."""

import difflib
import re
from collections.abc import Iterable

CLOSE = 0.75  # of 1, how like a word an id is


def did_you_mean(name: str, known: Iterable[str], kind: str = "") -> str:
    """A sentence with close matches of a whole name, or nothing."""
    lower = {x.lower(): x for x in known}
    close = [lower[match] for match in difflib.get_close_matches(name.lower(), lower)]
    return f" Did you mean{kind} {' or '.join(map(repr, close))}?" if close else ""


def alike(word: str, ids: Iterable[str]) -> list[str]:
    """The ids that contain a word or are like it, the closest first."""
    word = _core_of(word)
    ratios = {id: difflib.SequenceMatcher(None, word, _core_of(id)).ratio() for id in ids}
    found = [id for id in ratios if word in _core_of(id) or ratios[id] > CLOSE]
    return sorted(found, key=lambda id: -ratios[id])


def _core_of(id: str) -> str:
    """An id without prefix, version, case and separators: "tictactoe" of "pgx/tic_tac_toe"."""
    return re.sub(r"-v\d+$|[\W_]", "", id.rpartition("/")[2].lower())
