"""The suites, or the ids of one, such as gymnax."""

from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

from envrax._checks.packages import how_to_install
from envrax.libraries import missing_libraries, without_sprites
from envrax.registry import available_suites, installed_suites, registered_names
from envrax.suite import load_suite

NO_SPRITES = "sprites missing: `python -m jaxtari.install_sprites`"


def arguments(add: Callable[..., Any]) -> None:
    add("prefix", nargs="?", help="a suite; without it, all suites, of which none is imported")


def run(given: Any) -> int:
    print(*(load_suite(given.prefix) if given.prefix else _suites()), sep="\n")
    return 0


def _suites() -> Iterator[str]:
    """One line for each suite, without importing any, then the names without a suite."""
    points = installed_suites()
    missing, bare = missing_libraries(), without_sprites()
    for name in available_suites():
        point = points.get(name)
        status = "registered"
        if point:
            module = point.value or "an entry point without a module"
            status = f"{module}, from {distribution_of(point)}"
        if name in missing:
            status = f"not installed: {how_to_install(name)}"
        elif name in bare:
            status += f", {NO_SPRITES}"
        yield f"{name:<12}  {status}"
    yield from (name for name in registered_names() if "/" not in name)


def distribution_of(point: metadata.EntryPoint) -> str:
    """The package that has an entry point, with its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"
