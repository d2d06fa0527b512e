"""Time several candidates in turns, so that noise affects all of them alike."""

import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Protocol, TypeVar

from envrax import __version__

Work = Callable[[], object]
MakerT = TypeVar("MakerT")
ROUNDS = 15
VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2"}  # by flag, the widest first
PEERS = (
    *("gymnax", "gymnasium", "envpool", "jumanji", "brax", "craftax", "stable-baselines3"),
    *("pgx", "playground", "torch", "torchrl", "skrl", "sbx-rl", "tianshou", "ray", "agilerl"),
    *("jaxtari", "ale-py"),
)


class Result(Protocol):
    """A part of what a benchmark found."""

    @property
    def title(self) -> str: ...

    def data(self) -> dict[str, dict[str, float]]:
        """The numbers by row and column, for a JSON file."""
        ...

    def markdown(self) -> str: ...


@dataclass(frozen=True)
class Values:
    """Numbers that are not times of candidates side by side: by row and column."""

    title: str
    rows: dict[str, dict[str, float]]

    def data(self) -> dict[str, dict[str, float]]:
        return {k: {c: _short(x) for c, x in row.items()} for k, row in self.rows.items()}

    def markdown(self) -> str:
        columns = list(dict.fromkeys(column for row in self.rows.values() for column in row))
        lines = [f"### {self.title}", "", f"| | {' | '.join(columns)} |"]
        lines.append("|---" * (1 + len(columns)) + "|")
        for name, row in self.rows.items():
            cells = [f"{row[c]:,.4g}" if c in row else "" for c in columns]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        return "\n".join(lines)


@dataclass(frozen=True)
class Table:
    """
    Times of several candidates. The others are compared with the first.

    Attributes
    ----------
    title : str
    seconds : dict
        From the name of a candidate to its times.
    steps : int
        Steps of the whole batch in each time; 1 for work that is not a loop of steps.
    """

    title: str
    seconds: dict[str, list[float]]
    steps: int

    @property
    def unit(self) -> str:
        """The unit of `scaled`."""
        return "s" if self.steps == 1 else "µs per step"

    def scaled(self, seconds: float) -> float:
        """A time in `unit`."""
        return seconds if self.steps == 1 else 1e6 * seconds / self.steps

    def shown(self, seconds: float) -> str:
        """A time in `unit`, with four digits."""
        return f"{float(f'{self.scaled(seconds):.4g}'):,.10g}"

    def median(self, name: str) -> str:
        """The median time, in `unit`."""
        return self.shown(statistics.median(self.seconds[name]))

    def ratio(self, name: str) -> float:
        """The median, over turns, of the time divided by the first candidate's in the same turn."""
        first = next(iter(self.seconds.values()))
        turns = zip(self.seconds[name], first, strict=True)
        return statistics.median(a / b for a, b in turns)

    def data(self) -> dict[str, dict[str, float]]:
        """The median, minimum and maximum in `unit`, and the ratio to the first candidate."""
        kinds = {"median": statistics.median, "min": min, "max": max}
        return {
            name: {k: _short(self.scaled(kind(times))) for k, kind in kinds.items()}
            | {"ratio": _short(self.ratio(name))}
            for name, times in self.seconds.items()
        }

    def markdown(self) -> str:
        lines = [
            f"### {self.title}",
            "",
            f"| | median {self.unit} | min .. max | times the first |",
            "|---|---|---|---|",
        ]
        for name, seconds in self.seconds.items():
            spread = f"{self.shown(min(seconds))} .. {self.shown(max(seconds))}"
            lines.append(f"| {name} | {self.median(name)} | {spread} | {self.ratio(name):.2f} |")
        return "\n".join(lines)


def compare(
    ways: dict[str, Work], before: Callable[[str], object] = lambda name: None
) -> dict[str, list[float]]:
    """
    Time each candidate `ROUNDS` times, in seconds; every other round goes backwards.

    Parameters
    ----------
    ways : dict
        From name to function. Each blocks until its work is done, and is called once beforehand.
    before : callable, optional
        Called with a name right before it is timed.
    """
    for work in ways.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(ROUNDS):
        for name, work in list(ways.items())[:: -1 if turn % 2 else 1]:
            before(name)
            begin = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - begin)
    return times


def available(peers: dict[str, MakerT]) -> Iterator[tuple[str, MakerT]]:
    """The libraries that are installed; prints a line for each of the others."""
    for name, maker in peers.items():
        package = name.split(",")[0].lower()
        if _version(package) == "missing":
            print(f"{name}: left out, {package} is not installed (extra `bench`).")
        else:
            yield name, maker


def machine() -> str:
    """The machine and the versions of the libraries."""
    names = ("jax", "numpy", *PEERS)
    versions = [f"{name} {version}" for name in names if (version := _version(name)) != "missing"]
    cores = os.cpu_count()
    if hasattr(os, "sched_getaffinity") and (used := len(os.sched_getaffinity(0))) != cores:
        cores = f"{used} of {cores}"
    return (
        f"{cores} cores, {processor()}, Python {platform.python_version()}, "
        f"envrax {__version__}, {', '.join(versions)}"
    )


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor and its widest vectors, on which ratios depend; else its architecture."""
    if not cpuinfo.exists():
        return platform.processor() or platform.machine()
    text = cpuinfo.read_text(encoding="utf-8")
    name = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    vectors = [about for flag, about in VECTORS.items() if re.search(rf"\b{flag}\b", text)]
    named = name[1].strip().replace(",", "") if name else platform.machine()
    return f"{named} with {vectors[0]}" if vectors else named


def _short(x: float) -> float:
    return float(f"{x:.5g}")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"
