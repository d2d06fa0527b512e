"""Which packages are installed, and how to install the others."""

import importlib.util
import re
from collections.abc import Iterator
from importlib import metadata


def is_installed(package: str) -> bool:
    """Whether a package can be imported, by its import name. Only its parents are imported."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # the parent of a dotted name is missing, or is no package
        return False


def how_to_install(extra: str) -> str:
    """The command that installs the packages of an extra. PyPI has another `envrax`."""
    return f"`pip install {' '.join(_requirements(extra))}`"


def _requirements(extra: str) -> Iterator[str]:
    for line in metadata.requires("envrax") or ():
        needed, _, only = re.sub("[()]", "", line).replace('"', "'").rpartition("extra == ")
        if only == f"'{extra}'":
            needed = needed.strip("; ").removesuffix(" and")  # with a marker of Python's version
            other = re.fullmatch(r"envrax\[(.+)\]", needed)
            yield from _requirements(other[1]) if other else [f'"{needed}"']
