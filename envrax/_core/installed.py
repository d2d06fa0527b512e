"""What is installed: the suites of packages, and how to install what is not."""

import re
from importlib import metadata
from importlib.metadata import EntryPoint, entry_points


def installed_suites() -> dict[str, EntryPoint]:
    """The entry points of installed packages in the group `envrax.suites`, by prefix."""
    return {point.name: point for point in entry_points(group="envrax.suites")}


def lacking(suite: EntryPoint) -> list[str]:
    """The packages that are not installed, of the extra with the suite's name."""
    requires = (suite.dist.requires if suite.dist else None) or []
    of_extra = re.compile(rf"([\w.-]+).*\bextra == ['\"]{re.escape(suite.name)}['\"]")
    packages = [match[1] for match in map(of_extra.match, requires) if match]
    return [name for name in packages if not _is_installed(name)]


def how_to_install(extra: str, package: str = "envrax") -> str:
    """The command for an extra, from a package index and in a clone."""
    return f'`pip install "{package}[{extra}]"`, in a clone `pip install -e ".[{extra}]"`'


def _is_installed(package: str) -> bool:
    try:
        return bool(metadata.version(package))
    except metadata.PackageNotFoundError:
        return False
