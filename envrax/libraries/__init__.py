"""The libraries with an adapter: their ids, and which of them are installed."""

import importlib.util
import json
import runpy
from functools import cache
from pathlib import Path
from typing import Any

from envrax._checks.packages import is_installed

_MODULES = {"playground": "mujoco_playground"}  # of libraries whose prefix is another name


@cache
def known() -> dict[str, dict[str, Any]]:
    """
    What is known of each library and of each id, installed or not.

    `known.json` is made of the files in `benchmarks` by `python -m benchmarks pages`. It is read
    only when it is asked for.
    """
    return json.loads(Path(__file__).with_name("known.json").read_text(encoding="utf-8"))


def library_ids() -> list[str]:
    """The ids of the libraries with an adapter, installed or not, sorted."""
    return sorted(id for id in known() if "/" in id and not id.startswith("classic/"))


def adapter_for(module: str) -> str | None:
    """The name of the adapter of the library that is imported as `module`; None without one."""
    return next((x for x in known() if "/" not in x and _MODULES.get(x, x) == module), None)


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
