"""Time several ways to do the same work, in turns, so that noise meets all of them alike."""

import platform
import statistics
import time
from collections.abc import Callable
from importlib import metadata

from envrax import __version__

Work = Callable[[], object]


def compare(ways: dict[str, Work], repeats: int) -> dict[str, list[float]]:
    """
    Seconds of each way, `repeats` times.

    Parameters
    ----------
    ways : dict
        Name to function; each blocks until its work is done, and is run once beforehand.
    repeats : int
        How often each is timed, in turns.
    """
    for work in ways.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, work in ways.items():
            begin = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - begin)
    return times


def table(title: str, times: dict[str, list[float]], steps: int) -> str:
    """A Markdown table: microseconds per step, and how many times the first row's each takes."""
    first = next(iter(times.values()))
    lines = [
        f"### {title}",
        "",
        "| | median us/step | min .. max | x the first |",
        "|---|---|---|---|",
    ]
    for name, seconds in times.items():
        micro = [1e6 * s / steps for s in seconds]
        # Of turns, not of medians: a slow second slows both ways of its turn.
        ratio = statistics.median(a / b for a, b in zip(seconds, first, strict=True))
        lines.append(
            f"| {name} | {statistics.median(micro):.1f} | {min(micro):.1f} .. {max(micro):.1f} "
            f"| {ratio:.2f} |"
        )
    return "\n".join(lines)


def machine() -> str:
    """What the figures were measured on."""
    packages = ("jax", "gymnax", "gymnasium", "numpy")
    versions = [f"envrax {__version__}", *(f"{name} {_version(name)}" for name in packages)]
    return f"{platform.machine()}, Python {platform.python_version()}, {', '.join(versions)}"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"
