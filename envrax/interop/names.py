"""The ids of the libraries with an adapter, and which of these libraries are installed."""

import contextlib
import importlib.util
import runpy
from functools import cache
from pathlib import Path

from envrax._checks.names import search
from envrax._checks.packages import how_to_install, is_installed
from envrax.error import MissingPackageError
from envrax.registry import available_suites, import_suite, installed_suites, registered_names

_MODULES = {"playground": "mujoco_playground"}  # of libraries whose prefix is another name


@cache
def library_ids() -> list[str]:
    """The ids of the libraries with an adapter, installed or not, as listed in `ids.txt`."""
    return Path(__file__).with_name("ids.txt").read_text(encoding="utf-8").split()


def missing_libraries() -> list[str]:
    """The prefixes of the libraries with an adapter that are not installed; nothing is imported."""
    prefixes = dict.fromkeys(name.partition("/")[0] for name in library_ids())
    return [prefix for prefix in prefixes if not is_installed(_MODULES.get(prefix, prefix))]


def without_sprites() -> list[str]:
    """
    The prefixes of the installed libraries that miss sprites, which they download; of JAXtari.

    Where its sprites lie is read from its file of paths. That runs without the rest of the library,
    whose import takes seconds.
    """
    found = importlib.util.find_spec("jaxtari")
    if found is None or found.origin is None:
        return []
    paths = runpy.run_path(str(Path(found.origin).with_name("paths.py")))
    return [] if paths["ownership_or_alt_markers_present"]() else ["jaxtari"]


def find(word: str) -> list[str]:
    """
    Search ids: those that contain a word or are similar to it, the closest first.

    Case, versions, `-` and `_` do not count. The ids of libraries come from a list, whether they
    are installed or not. Other installed suites are imported, if they can be.
    """
    _import_other_suites()
    return search(word, sorted({*registered_names(), *library_ids()}))


def installed_ids() -> list[str]:
    """
    The ids of all installed suites, sorted.

    Those of libraries come from a list. Other installed suites are imported, if they can be.
    """
    _import_other_suites()
    missing = missing_libraries()
    ids = [name for name in library_ids() if name.partition("/")[0] not in missing]
    return sorted({*registered_names(), *ids})


def _import_other_suites() -> None:
    """Import the suites that are no library with an adapter; one that does not load has no ids."""
    for prefix, point in installed_suites().items():
        if not point.value.startswith("envrax.interop."):
            with contextlib.suppress(MissingPackageError):
                import_suite(prefix)


def about_suites(name: str, found: list[str]) -> str:
    """The part of an error that says which suites are installed, and how to install others."""
    missing = missing_libraries()
    suites = available_suites()
    text = f" Suites installed: {', '.join(x for x in suites if x not in missing) or 'none'}"
    if missing:
        text += f"; not installed: {', '.join(missing)}"
    ours = name in library_ids() or name.startswith("classic/")
    prefix = (name if ours else (found or [""])[0]).partition("/")[0]
    if prefix in missing:
        text += f". Install {prefix} with {how_to_install(prefix)}"
    elif ours and prefix not in suites:
        module = "envrax.classic" if prefix == "classic" else f"envrax.interop.{prefix}"
        text += (
            f". The suite {prefix} is not registered, as where a checkout of envrax is on the "
            f"path: install it with `pip install -e .`, or import `{module}`"
        )
    if name.startswith("ALE/"):
        text += ". ALE is a simulator on the host: see the page 'EnvPool, Atari and Gymnasium'"
    return f"{text}. `python -m envrax find WORD` looks for ids."
