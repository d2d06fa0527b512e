"""Which packages are installed, how to install the others, and importing code of other people."""

import importlib.util
import re
import sys
from collections.abc import Iterator
from importlib import metadata

from envrax.error import MissingPackageError


def is_installed(package: str) -> bool:
    """Whether a package can be imported, by its import name. Only its parents are imported."""
    try:
        return importlib.util.find_spec(package) is not None
    except (Exception, SystemExit):  # importing the parent of a dotted name failed
        return False


def import_whole(module: str, who: str) -> None:
    """
    Import a module, or none of its submodules either.

    Parameters
    ----------
    module : str
        The module.
    who : str
        What it is, for the message.

    Raises
    ------
    MissingPackageError
        Whatever the import raises, `sys.exit` included, but not KeyboardInterrupt.
    """
    before = set(sys.modules)
    try:
        importlib.import_module(module)
    except BaseException as error:
        # Python forgets the module that failed. The next import runs the others again too.
        for name in set(sys.modules) - before:
            if name.startswith(f"{module}."):
                del sys.modules[name]
        if isinstance(error, MissingPackageError | KeyboardInterrupt):
            raise
        advice = f" Install {error.name}." if isinstance(error, ModuleNotFoundError) else ""
        raise MissingPackageError(
            f"{who}: expected a module that can be imported; got {module!r}, which raises "
            f"{type(error).__name__}: {error}.{advice}"
        ) from error


def how_to_install(extra: str) -> str:
    """The command that installs the packages of an extra. PyPI has another `envrax`."""
    try:
        packages = " ".join(_requirements(extra))
    except metadata.PackageNotFoundError:
        packages = ""
    if packages:
        return f"`pip install {packages}`"
    # The package is not installed, or another one of this name is.
    return f'`pip install -e ".[{extra}]"` in the clone of envrax'


def _requirements(extra: str) -> Iterator[str]:
    for line in metadata.requires("envrax") or ():
        needed, _, only = re.sub("[()]", "", line).replace('"', "'").rpartition("extra == ")
        if only == f"'{extra}'":
            needed = needed.strip("; ").removesuffix(" and")  # with a marker of Python's version
            other = re.fullmatch(r"envrax\[(.+)\]", needed)
            yield from _requirements(other[1]) if other else [f'"{needed}"']
