"""What commands about every library share: a process for each, and what is known of the ids."""

import argparse
import json
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# Those whose own auto-reset loop is timed beside `make_vec`, and all.
TIMED = (
    *("gymnax", "brax", "jumanji", "playground", "navix", "craftax", "pgx"),
    *("xminigrid", "kinetix", "jaxmarl", "jaxtari"),
)
ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LIBRARIES = tuple(PROJECT["entry-points"]["envrax.suites"])
_HEADS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
VERDICTS = Path(__file__).parent / "verdicts"
RESTARTS = 50  # of the process of a library


def visit_each(
    command: str,
    description: str | None,
    visit: Callable[[str, float], None],
    forget: Callable[[str], None],
    libraries: Sequence[str] = LIBRARIES,
) -> None:
    """
    Visit the libraries that the command line names, each in a process of its own.

    A process that crashes is started again. It should go on with the id after the crash.

    Parameters
    ----------
    command : str
        Name of the command, which the processes run as well.
    description : str, optional
        Help of the command.
    visit : callable
        `visit(library, end)` visits all ids that have no result yet. It begins no id after `end`,
        a time of `time.monotonic`.
    forget : callable
        `forget(library)` removes the results.
    libraries : sequence of str
        Those that are visited if the command line names none.
    """
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=form)
    parser.add_argument("libraries", nargs="*", help=f"of {', '.join(libraries)}; default all")
    parser.add_argument("--again", action="store_true", help="forget the results so far")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no id after them")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    end = time.monotonic() + 60 * given.minutes
    if given.child:
        visit(given.child, end)
        sys.exit()
    for library in given.libraries or libraries:
        if given.again:
            forget(library)
        child = [sys.executable, "-m", "benchmarks", command, "--child", library]
        for _ in range(RESTARTS):
            minutes = max(0.0, (end - time.monotonic()) / 60)
            if subprocess.run([*child, "--minutes", f"{minutes:.3f}"]).returncode == 0:
                break


def verdicts(library: str) -> dict[str, dict[str, Any]]:
    """What `table` found, by id."""
    path = verdicts_path(library)
    return json.loads(path.read_text()) if path.exists() else {}


def head(library: str) -> dict[str, str]:
    """What `libraries.toml` says of a library: licence, citation, and its row in the tables."""
    return _HEADS.get(library, {})


def with_adapter() -> list[str]:
    """The libraries with an adapter, which have a page."""
    return [*_HEADS]


def verdicts_path(library: str) -> Path:
    return VERDICTS / f"{library}.json"


def built(library: str) -> list[str]:
    """The ids that can be built."""
    not_built = "not built", "stopped"
    rows = sorted(verdicts(library).items())
    return [id for id, row in rows if row["verdict"] not in not_built and " as a world" not in id]


def first_line(error: Exception) -> str:
    """The first line of an error, without paths of this machine."""
    line = f"{type(error).__name__}: {error}".split("\n")[0]
    return re.sub(r" ?\(?(?<!\w)/\S+", "", line)[:160]
