"""Installed packages and their versions, how to install others, and importing other code."""

import importlib.util
import re
import sys
from collections.abc import Iterator
from importlib import metadata

from envrax.error import MissingPackageError

NOT_INSTALLED = "not installed"


def is_installed(package: str) -> bool:
    """Whether a package can be imported, by its import name. Only its parents are imported."""
    try:
        return importlib.util.find_spec(package) is not None
    except (Exception, SystemExit):  # importing the parent of a dotted name failed
        return False


def version_of(package: str) -> str:
    """The version of an installed package, or `NOT_INSTALLED`."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return NOT_INSTALLED


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
        # Python forgets a package that failed. The next import runs its modules again too.
        for name in sorted(set(sys.modules) - before):
            package = name.rpartition(".")[0]
            if package and package not in sys.modules:
                del sys.modules[name]
        if isinstance(error, MissingPackageError | KeyboardInterrupt):
            raise
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        advice = f" Install {missing}." if missing else ""
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
        if only == f"'{extra.replace('_', '-')}'":  # as packages write the names of extras
            needed = needed.strip("; ").removesuffix(" and")  # with a marker of Python's version
            other = re.fullmatch(r"envrax\[(.+)\]", needed)
            yield from _requirements(other[1]) if other else [f'"{needed}"']
