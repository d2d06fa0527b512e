"""Ids that are like a word, the libraries with an adapter, and how to install them."""

import difflib
import importlib.util
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

CLOSE = 0.75  # of 1, how like a word an id is
MOST_LISTED, MOST_OFFERED = 12, 4  # names in an error
_MODULES = {"playground": "mujoco_playground"}  # of libraries whose prefix is another name


@cache
def library_ids() -> list[str]:
    """The ids of the libraries with an adapter, installed or not, from a list."""
    return Path(__file__).with_name("ids.txt").read_text(encoding="utf-8").split()


def missing_libraries() -> list[str]:
    """The prefixes of the libraries with an adapter that are not installed. Imports none."""
    prefixes = dict.fromkeys(name.partition("/")[0] for name in library_ids())
    return [prefix for prefix in prefixes if not is_installed(_MODULES.get(prefix, prefix))]


def is_installed(package: str) -> bool:
    """Whether a package can be imported, by its import name. Imports only parents of it."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # the parent of a dotted name is missing, or is no package
        return False


def how_to_install(extra: str) -> str:
    """The command that installs what an extra names. Not the extra: PyPI has another envrax."""
    return f"`pip install {' '.join(_requirements(extra))}`"


def _requirements(extra: str) -> Iterator[str]:
    for line in metadata.requires("envrax") or ():
        needed, _, only = re.sub("[()]", "", line).replace('"', "'").rpartition("extra == ")
        if only == f"'{extra}'":
            needed = needed.strip("; ").removesuffix(" and")  # with a marker of Python's version
            other = re.fullmatch(r"envrax\[(.+)\]", needed)
            yield from _requirements(other[1]) if other else [f'"{needed}"']


def alike(word: str, ids: Iterable[str]) -> list[str]:
    """The ids with a word as prefix, that contain it or are like it, the closest first."""
    prefix, word = f"{word.lower()}/", _core_of(word)
    ratios = {id: difflib.SequenceMatcher(None, word, _core_of(id)).ratio() for id in ids}
    found = [
        id for id in ratios if word in _core_of(id) or id.startswith(prefix) or ratios[id] > CLOSE
    ]
    return sorted(found, key=lambda id: -ratios[id]) if word else []


def did_you_mean(found: list[str]) -> str:
    """The question that offers names, after a space; empty if there are none."""
    return f" Did you mean {' or '.join(map(repr, found[:MOST_OFFERED]))}?" if found else ""


def available(names: list[str]) -> str:
    """The sentence that lists what is registered, after a space; empty if nothing is."""
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return f" Available: {', '.join(names[:MOST_LISTED])}{more}." if names else ""


def about_suites(name: str, suites: list[str], found: list[str]) -> str:
    """Which suites are installed, and how to install that of the closest id."""
    missing = missing_libraries()
    said = f" Suites installed: {', '.join(x for x in suites if x not in missing) or 'none'}"
    if missing:
        said += f"; not installed: {', '.join(missing)}"
    if found and (prefix := found[0].partition("/")[0]) in missing:
        said += f". Install {prefix} with {how_to_install(prefix)}"
    if name.startswith("classic/") and "classic" not in suites:
        said += ". `classic` is the suite in `examples/envrax-classic` of envrax's repository"
    if name.startswith("ALE/"):
        said += ". ALE is a simulator on the host: see the page 'EnvPool, Atari and Gymnasium'"
    return f"{said}. `python -m envrax find WORD` looks for ids."


def _core_of(id: str) -> str:
    """An id without prefix, version, case and separators: "tictactoe" of "pgx/tic_tac_toe"."""
    return re.sub(r"-v\d+$|[\W_]", "", id.rpartition("/")[2].lower())
