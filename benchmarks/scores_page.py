"""The tables of what was learned, for the documentation."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks import scores

VERDICTS = "solved", "learns", "does not learn"


def counts() -> Iterator[str]:
    """The verdicts, counted by library."""
    every = [*scores.every_row()]
    yield f"| library | ids | {' | '.join(VERDICTS)} |"
    yield "|---" * (2 + len(VERDICTS)) + "|"
    for library in scores.LIBRARIES:
        yield _count(library, [row for row in every if _library(row) == library])
    yield _count("all", every)


def unlearned() -> Iterator[str]:
    """The ids that do not learn, and why."""
    yield "| id | random play | trained | why |"
    yield "|---|---|---|---|"
    for row in scores.every_row():
        if row["verdict"] == "does not learn":
            cells = f"`{row['id']}`", _mean(row, "random"), _mean(row, "trained"), row["why"]
            yield f"| {' | '.join(cells)} |"


def _mean(row: dict[str, Any], kind: str) -> str:
    half = float(f"{row[f'{kind} ±']:.2g}")
    return f"{row[kind]:,g}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{half:,g}"


def _count(name: str, rows: Sequence[dict[str, Any]]) -> str:
    counts = Counter(row["verdict"] for row in rows)
    return f"| {name} | {len(rows)} | {' | '.join(str(counts[x]) for x in VERDICTS)} |"


def _library(row: dict[str, Any]) -> str:
    return row["id"].partition("/")[0]
