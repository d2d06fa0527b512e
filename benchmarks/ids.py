"""
Every id of every library: how long it compiles, how fast it steps, what it keeps for a slot.

    python -m benchmarks.ids                     all libraries; needs the extra `interop`
    python -m benchmarks.ids gymnax pgx          these

A process of its own measures each library. Results go to `benchmarks/results/ids/LIBRARY.json` as
they come; ids that are there already are not measured again, unless `--again` is given, so that an
interrupted run goes on. The page of `benchmarks.interop_table` has a column for each figure.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SIZES, LENGTH, SECONDS, ROUNDS = (64, 1024), 10, 0.3, 5
RESULTS = Path(__file__).parent / "results/ids"


def main() -> None:
    from benchmarks.interop_table import LIBRARIES, PAGE, page

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("libraries", nargs="*", help=f"of {', '.join(LIBRARIES)}; default all")
    parser.add_argument("--again", action="store_true", help="measure all ids again")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no id after them")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        measure_library(given.child, time.monotonic() + 60 * given.minutes)
        return
    begin = time.monotonic()
    for library in given.libraries or LIBRARIES:
        if given.again:
            path(library).unlink(missing_ok=True)
        for _ in range(50):  # a crash costs one id
            left = given.minutes - (time.monotonic() - begin) / 60
            command = [sys.executable, "-m", "benchmarks.ids", "--child", library]
            if subprocess.run([*command, "--minutes", str(left)]).returncode == 0:
                break
    PAGE.write_text("\n".join(page()) + "\n")


def measure_library(library: str, end: float) -> None:
    """Measure what can be built of a library and has no result yet."""
    from benchmarks.interop_table import verdicts

    for id, row in verdicts(library).items():
        built = row["verdict"] not in ("not built", "stopped") and " as a world" not in id
        if not built or id in read(library) or time.monotonic() > end:
            continue
        _add(library, id, {"why": "the process ended"})  # what stays if it does
        try:
            _add(library, id, measured(id))
        except Exception as error:
            _add(library, id, {"why": f"{type(error).__name__}: {error}".split("\n")[0][:160]})
        print(id, read(library)[id], flush=True)


def measured(id: str) -> dict[str, Any]:
    """Seconds to the first result with 64 slots, steps per second of all slots, bytes of a slot."""
    from benchmarks import interop_loops as loops
    from benchmarks.interop_speed import Rollout
    from benchmarks.memory import size_of

    row: dict[str, Any] = {}
    for n in SIZES:
        begin = time.perf_counter()
        loop, space = loops.ours(id, n)
        run = Rollout(loop, space, LENGTH)
        run(1)
        if n == SIZES[0]:
            row["compile"] = round(time.perf_counter() - begin, 1)
            row["bytes"] = size_of(loop.start) // n
        chunks, seconds = 1, _timed(run, 1)
        while seconds < SECONDS:
            chunks = max(chunks + 1, int(1.2 * chunks * SECONDS / seconds))
            seconds = _timed(run, chunks)
        best = min(_timed(run, chunks) for _ in range(ROUNDS))
        row[f"{n}"] = float(f"{n * chunks * LENGTH / best:.3g}")
    return row


def _timed(run: Any, chunks: int) -> float:
    begin = time.perf_counter()
    run(chunks)
    return time.perf_counter() - begin


def path(library: str) -> Path:
    return RESULTS / f"{library}.json"


def read(library: str) -> dict[str, dict[str, Any]]:
    return json.loads(path(library).read_text()) if path(library).exists() else {}


def _add(library: str, id: str, row: dict[str, Any]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    rows = {**read(library), id: row}
    path(library).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
