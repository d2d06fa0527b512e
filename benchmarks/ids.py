"""
Every id of every library: how long it compiles, how fast it steps, what it keeps for a slot.

    python -m benchmarks ids                     all libraries
    python -m benchmarks ids gymnax pgx          these

A process of its own measures each library in CPU time on one core, so that other work on the
machine hardly matters. Results go to `benchmarks/results/ids/LIBRARY.json` as they come; ids that
are there already are not measured again, unless `--again` is given, so that an interrupted run goes
on.
`python -m benchmarks pages` writes them into the cards of the ids.
"""

import os
import time
from typing import Any

import jax

from benchmarks import files, loops
from benchmarks.libraries import built, first_line, visit_each
from benchmarks.memory import size_of
from benchmarks.rollout import RandomPlay

SIZES = (64, 1024)
LENGTH = 10
SECONDS = 0.3
ROUNDS = 5
LONGEST = 8.0  # seconds, after which no further round begins
now = time.process_time  # on one core, so that other work there does not count


def main() -> None:
    visit_each("ids", __doc__, measure_library, lambda library: files.write(f"ids/{library}", {}))


def measure_library(library: str, end: float) -> None:
    """Measure what can be built of a library and has no result yet."""
    if hasattr(os, "sched_setaffinity"):  # not on macOS
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    jax.config.update("jax_enable_compilation_cache", False)
    for id in built(library):
        found = _read(library)
        known = id in found["tables"]["ids"] or id in found["why"]
        if known or time.monotonic() > end:
            continue
        _add(library, id, {}, "the process ended")  # what stays if it does
        try:
            _add(library, id, measured(id), None)
        except Exception as error:
            _add(library, id, {}, first_line(error))
        found = _read(library)
        print(id, found["tables"]["ids"].get(id, found["why"].get(id)), flush=True)


def measured(id: str) -> dict[str, float]:
    """Seconds to the first result with 64 slots, steps per second of all slots, bytes of a slot."""
    row: dict[str, float] = {}
    for n in SIZES:
        begin = now()
        loop, space = loops.ours(id, n)
        run = RandomPlay(loop, space, LENGTH)
        run(1)
        if n == SIZES[0]:
            row["compile"] = round(now() - begin, 1)
            row["bytes"] = size_of(loop.start) // n
        chunks = 1
        seconds = _timed(run, 1)
        while seconds < SECONDS:
            chunks = max(chunks + 1, int(1.2 * chunks * SECONDS / seconds))
            seconds = _timed(run, chunks)
        times = [seconds]
        while len(times) < ROUNDS and sum(times) < LONGEST:
            times.append(_timed(run, chunks))
        row[f"{n}"] = float(f"{n * chunks * LENGTH / min(times):.3g}")
    return row


def _timed(run: Any, chunks: int) -> float:
    begin = now()
    run(chunks)
    return now() - begin


def rows(library: str) -> dict[str, dict[str, float]]:
    """What was measured so far, by id."""
    return _read(library)["tables"]["ids"]


def _read(library: str) -> dict[str, Any]:
    found = files.read(f"ids/{library}")
    return {"why": {}, **found, "tables": {"ids": {}, **found["tables"]}}


def _add(library: str, id: str, row: dict[str, float], why: str | None) -> None:
    found = _read(library)
    for kind, entry in ((found["tables"]["ids"], row), (found["why"], why)):
        kind.update({id: entry} if entry else {})
        if not entry:
            kind.pop(id, None)
    files.write(f"ids/{library}", found["tables"], why=found["why"])
