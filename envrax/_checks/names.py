"""Checks of names, and close matches for unknown ones."""

import difflib
import re
from collections.abc import Iterable
from typing import Any

SIMILARITY = 0.75  # the least ratio of `difflib` at which an id counts as a close match
CONTAINED = 0.5  # the same for an id that contains the word
MOST_LISTED = 12  # available names in an error
MOST_OFFERED = 4  # close matches in an error


def require_known(
    expected: str,
    given: Iterable[Any],
    known: Iterable[Any],
    also: Iterable[str] = (),
    error: type[Exception] = TypeError,
    got: str = "{}",
) -> None:
    """
    Raise an error for names in `given` that are not in `known`, with close matches.

    Parameters
    ----------
    expected : str
        The message up to the known names: "LiftConfig: expected the keywords".
    given, known : iterable
        Names of fields, or keys of a dict.
    also : iterable of str
        Further names to suggest.
    error : type, default TypeError
        Class of the error.
    got : str, default "{}"
        What an unknown name is called.
    """
    names = [str(name) for name in known]
    if unknown := [str(name) for name in given if str(name) not in names]:
        raise error(
            f"{expected} {', '.join(names)}; got {', '.join(map(got.format, unknown))}. "
            f"{suggestion(unknown, [*names, *also])}"
        )


def suggestion(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Advice on unknown names: a close match, else to leave them out or use the dict `params`."""
    known = list(known)
    close = [match for name in unknown for match in difflib.get_close_matches(name, known, 1, 0.65)]
    words = [name for name in unknown if len(name) > 2]
    close = close or [x for x in known if any(word in x for word in words)]
    inside = ", or put it into the dict `params`" if "params" in known else ""
    return f"Did you mean {' and '.join(close)}?" if close else f"Leave it out{inside}."


def search(word: str, ids: Iterable[str], least: float = 0.0) -> list[str]:
    """
    The ids that have a word as prefix, contain it or resemble it; the closest first.

    An id that contains the word must have a ratio of `difflib` above `least`.
    """
    prefix = f"{word.lower()}/"
    word = _bare_name(word)
    ratios = {id: difflib.SequenceMatcher(None, word, _bare_name(id)).ratio() for id in ids}
    found = [
        id
        for id, ratio in ratios.items()
        if id.startswith(prefix) or ratio > (least if word in _bare_name(id) else SIMILARITY)
    ]
    return sorted(found, key=lambda id: -ratios[id]) if word else []


def close_matches(word: str, ids: Iterable[str]) -> list[str]:
    """Near misses, to offer for an unknown word: no long id that happens to contain a short one."""
    return search(word, ids, least=CONTAINED)


def did_you_mean(found: list[str]) -> str:
    """The question "Did you mean ...?" after a space; empty without names."""
    return f" Did you mean {' or '.join(map(repr, found[:MOST_OFFERED]))}?" if found else ""


def available(names: list[str]) -> str:
    """The sentence that lists registered names, after a space; empty without names."""
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return f" Available: {', '.join(names[:MOST_LISTED])}{more}." if names else ""


def _bare_name(id: str) -> str:
    """An id without prefix, version, case and separators: "tictactoe" of "pgx/tic_tac_toe"."""
    return re.sub(r"-v\d+$|[\W_]", "", id.rpartition("/")[2].lower())
