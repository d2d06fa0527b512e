"""`python -m envrax.testing match package.module:function`."""

import argparse
import importlib
from collections.abc import Sequence
from typing import Any

from envrax.testing.match.report import Match

UNKNOWN = 3  # exit code of what is not refuted, and not shown to be the same


def main(argv: Sequence[str]) -> int:
    """
    Call functions that compare, and print what they return.

    Parameters
    ----------
    argv : sequence of str
        `package.module:function` for each; it takes no arguments and returns a `Match`.

    Returns
    -------
    int
        Exit code: 0 if all are the same, 1 if one is not, else 3: of one it is not known.

    Raises
    ------
    SystemExit
        With code 2 if a function is not found, fails, or returns something else.
    """
    parser = argparse.ArgumentParser(
        prog="python -m envrax.testing match",
        description="Compare environments with references, for CI.",
    )
    about = "`package.module:function`, which returns what `match_env` returns"
    parser.add_argument("function", nargs="+", help=about)
    matches: list[Match] = []
    for name in parser.parse_args(argv).function:
        try:
            found = _call(name)
        except (Exception, SystemExit) as error:  # whatever the code of a user raises
            parser.error(f"{name}: {type(error).__name__}: {error}")
        print(found, flush=True)
        matches.append(found)
    if any(match.ok is False for match in matches):
        return 1
    return UNKNOWN if any(match.ok is None for match in matches) else 0


def _call(name: str) -> Match:
    module, _, function = name.partition(":")
    found: Any = getattr(importlib.import_module(module), function)()
    if not isinstance(found, Match):
        raise TypeError(f"expected a function that returns a Match; got {found!r}.")
    return found
