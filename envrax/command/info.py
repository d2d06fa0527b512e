"""Versions, devices and settings, for the report of a bug."""

import os
import platform
import re
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any, cast

import jax

from envrax._checks.packages import version_of
from envrax.command.list import distribution_of
from envrax.libraries import missing_libraries
from envrax.libraries.cards import rows
from envrax.registry import installed_suites

_CORE = "jax", "jaxlib", "chex", "numpy"
_SETTINGS = (
    "jax_enable_x64",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_numpy_dtype_promotion",
)
_VARIABLES = "ENVRAX_", "JAX_", "XLA_", "LIBTPU_", "CUDA_VISIBLE_DEVICES"


def arguments(add: Callable[..., Any]) -> None:
    pass


def run(given: Any) -> int:
    """Print a row for each fact. Nothing but JAX's backend is started, no library imported."""
    facts = {"envrax": version_of("envrax")}
    facts["Python"] = f"{platform.python_version()}, {platform.platform()}"
    facts |= {name: version_of(name) for name in _CORE}
    facts["libraries"] = ", ".join(f"{name}=={version_of(name)}" for name in _libraries()) or "none"
    facts["suites"] = ", ".join(_suites()) or "none"
    facts |= _devices()
    facts["settings"] = ", ".join(f"{x}={getattr(jax.config, x)}" for x in _SETTINGS)
    ours = [f"{x}={os.environ[x]}" for x in sorted(os.environ) if x.startswith(_VARIABLES)]
    facts["variables"] = ", ".join(ours) or "none"
    print(*rows(facts.items()), sep="\n")
    return 0


def _libraries() -> list[str]:
    """The installed packages of envrax's extras, without the tools of tests and pages."""
    found: set[str] = set()
    for line in _requirements():
        needed, _, extra = line.replace('"', "'").partition("extra == ")
        name = re.match(r"[\w.-]+", needed)
        if name and extra and extra.strip("' )") not in ("test", "docs"):
            found.add(name[0])
    return sorted(
        name for name in found - {"envrax", *_CORE} if version_of(name) != "not installed"
    )


def _requirements() -> list[str]:
    try:
        return metadata.requires("envrax") or []
    except metadata.PackageNotFoundError:  # it lies on the path
        return []


def _suites() -> Iterator[str]:
    missing = missing_libraries()
    for name, point in sorted(installed_suites().items()):
        if name not in missing:
            yield f"{name} ({distribution_of(point)})"


def _devices() -> dict[str, str]:
    """Devices and backend, or why there is none."""
    try:
        devices = cast(list[Any], jax.devices())
    except RuntimeError as error:
        return {"devices": f"{error}"}
    kinds = [f"{device.device_kind} ({device.platform})" for device in devices]
    counted = [f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds)]
    return {
        "devices": ", ".join(counted),
        "backend": f"{jax.default_backend()}, processes: {jax.process_count()}",
        "runtime": " ".join(str(devices[0].client.platform_version).split()),
    }
