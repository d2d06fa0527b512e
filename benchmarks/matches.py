"""
Ports of other environments, compared with their originals by `match_env`.

    python -m benchmarks matches                     all libraries
    python -m benchmarks matches gymnax pgx          these

Results go to `benchmarks/results/matches/LIBRARY.json` as they come; ports that are there already
are not compared again, unless `--again` is given. `python -m benchmarks pages` writes them into the
cards of the ids.
"""

import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from typing import Any, cast

import envrax
from benchmarks import files
from benchmarks.libraries import first_line, visit_each
from benchmarks.ports import PORTS, Port
from envrax.testing import Case, match_env

DISTRIBUTIONS = {"classic": "envrax", "xminigrid": "xminigrid", "navix": "navix"}
SAME_STEP = {"spaces", "limit", "starts"}  # where these alone differ, a step is the same
STEPS = ("one step", "windows", "long windows")
FEWER_STEPS, FEWER_RESETS = 4000, 50  # from full tables
LONGEST = 600  # characters of a case


def main() -> None:
    def forget(library: str) -> None:
        files.write(f"matches/{library}", {})

    visit_each("matches", __doc__, compare_library, forget, list(PORTS))


def compare_library(library: str, end: float) -> None:
    """Compare the ports of a library that have no result yet."""
    for port in PORTS[library]:
        known = rows(library)
        if port.make is None or port.name in known or time.monotonic() > end:
            continue
        try:
            row = compared(port)
        except Exception as error:
            row = {"verdict": "not compared", "error": first_line(error)}
        files.write(f"matches/{library}", {}, matches={**known, port.name: row})
        print(port.name, row, flush=True)


def compared(port: Port) -> dict[str, Any]:
    """The verdict, what differs, the first case, the versions, the seconds."""
    begin = time.perf_counter()
    options: Any = {"options": port.options} if port.options else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = envrax.make(port.id, wrappers=port.wrappers, jit_compile=False, **options)
        match = match_env(env, cast(Any, port.make)(), **port.how)
        checks = [*match.checks]
        if port.tables is not None:
            how: Any = {**port.how, "n_steps": FEWER_STEPS, "n_resets": FEWER_RESETS}
            full = match_env(env, cast(Any, port.make)(), states=port.tables(env), **how)
            steps = [check for check in full.checks if check.name in STEPS]
            checks += [replace(check, name=f"{check.name} of full tables") for check in steps]
    differing = [check for check in checks if check.verdict == "differs"]
    verdict = {True: f"the same ({match.precision})", None: "not refuted"}.get(match.ok, "")
    if differing:
        names = [check.name for check in differing]
        step = next(check.verdict for check in checks if check.name == "one step")
        only = set(names) <= SAME_STEP and step in ("equal", "alike")
        verdict = f"the same step; not the same {' and '.join(names)}" if only else "not the same"
    case = next((check.case for check in differing if check.case is not None), None)
    library = port.id.partition("/")[0]
    packages = {DISTRIBUTIONS.get(library, library), port.package}
    return {
        "verdict": verdict,
        "checks": {check.name: [check.verdict, check.text] for check in checks},
        "case": _short(case) if case is not None else "",
        "all": next((check.shared for check in differing if check.shared), ""),
        "versions": {name: version(name) for name in sorted(packages)},
        "seconds": round(time.perf_counter() - begin),
    }


def _short(case: Case) -> str:
    """A case with its action first, so that the rest can be cut."""
    found, _, before = str(case).partition(", after ")
    state, _, action = before.rpartition(", action=")
    said = f"{found}, after action {action} in {state}"
    return said if len(said) <= LONGEST else f"{said[:LONGEST]}..."


def rows(library: str) -> dict[str, dict[str, Any]]:
    """What was found so far, by the names of both sides."""
    return files.read(f"matches/{library}").get("matches", {})


def every_port() -> Iterator[tuple[Port, dict[str, Any]]]:
    """Ports with what was found; those that cannot be compared come last."""
    ports = [(library, port) for library in PORTS for port in PORTS[library]]
    for library, port in sorted(ports, key=lambda x: x[1].make is None):
        if port.make is None:
            yield port, {"verdict": "not compared"}
        elif port.name in rows(library):
            yield port, rows(library)[port.name]


def differing(row: dict[str, Any]) -> str:
    """What the checks found that differs."""
    checks = row.get("checks", {}).items()
    return "; ".join(f"{name}: {text}" for name, (verdict, text) in checks if verdict == "differs")
