"""Suites of installed packages: the entry points of the group `envrax.suites`."""

import importlib
from importlib.metadata import EntryPoint, entry_points

from envrax.error import MissingPackageError

GROUP = "envrax.suites"


def installed_suites() -> dict[str, EntryPoint]:
    """Prefix to entry point, of every installed package that names a suite. Imports none."""
    return {point.name: point for point in entry_points(group=GROUP)}


def import_suite(prefix: str) -> bool:
    """
    Import the module that an installed package names for a prefix; it registers its suite.

    Returns
    -------
    bool
        Whether there is one.

    Raises
    ------
    MissingPackageError
        If it needs a package that is not installed.
    """
    point = installed_suites().get(prefix)
    if point is None:
        return False
    try:
        importlib.import_module(point.module)
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"Suite {prefix!r}: expected the packages that {point.module} needs; got an error: "
            f"{error}. Install {error.name}."
        ) from error
    return True
