"""The tables of what was learned, for the documentation."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks import scores
from benchmarks.tasks import TASKS

BLOCKS = "▁▂▃▄▅▆▇█"
COLUMNS = 12  # of a curve
VERDICTS = "solved", "learns", "does not learn"


def page() -> Iterator[str]:
    """The verdicts counted, and a table of each library."""
    every = [*scores.every_row()]
    yield f"| library | ids | {' | '.join(VERDICTS)} |"
    yield "|---" * (2 + len(VERDICTS)) + "|"
    for library in scores.LIBRARIES:
        yield _count(library, [row for row in every if _library(row) == library])
    yield _count("all", every)
    for library in scores.LIBRARIES:
        if rows := [row for row in every if _library(row) == library]:
            yield f"\n## {library}\n"
            yield "| id | verdict | random play | trained | known score | steps | curve |"
            yield "|---" * 7 + "|"
            yield from map(_line, rows)
            versions = rows[-1]["versions"].items()
            yield f"\nWith {', '.join(f'{name} {x}' for name, x in versions)}."


def unlearned() -> Iterator[str]:
    """The ids that do not learn, and why."""
    yield "| id | random play | trained | why |"
    yield "|---|---|---|---|"
    for row in scores.every_row():
        if row["verdict"] == "does not learn":
            cells = f"`{row['id']}`", _mean(row, "random"), _mean(row, "trained"), row["why"]
            yield f"| {' | '.join(cells)} |"


def cell(id: str) -> str:
    """The scores of an id in the table of all ids; empty if there are none."""
    row = scores.rows(id.partition("/")[0]).get(id, {})
    if "trained" not in row:
        return ""
    return f"{row['random']:,g} → {row['trained']:,g}, {row['verdict']}"


def curve(points: dict[str, float]) -> str:
    """The returns while training, from the lowest to the highest, as a row of bars."""
    returns = [*points.values()]
    if not returns or min(returns) == max(returns):
        return "▁" * bool(returns)
    shown = returns
    if len(returns) > COLUMNS:
        shown = [returns[i * (len(returns) - 1) // (COLUMNS - 1)] for i in range(COLUMNS)]
    low, high = min(returns), max(returns)
    return "".join(BLOCKS[int((x - low) / (high - low) * 7.999)] for x in shown)


def _line(row: dict[str, Any]) -> str:
    known = f"{row['known']:,g}, {row['source']}" if "known" in row else ""
    steps = sum(row["steps"]) / len(row["steps"])
    tasks = {task.id: task for task in TASKS}
    agents = tasks[row["id"]].agents
    name = f"`{row['id']}`" + (f" ({_who(agents)})" if agents else "")
    verdict = row["verdict"] + ("" if row["algorithm"] == "PPO" else f", by {row['algorithm']}")
    means = _mean(row, "random"), _mean(row, "trained")
    cells = name, verdict, *means, known, f"{steps / 1e3:,.0f} k", curve(row["curves"][0])
    return f"| {' | '.join(cells)} |"


def _who(agents: Sequence[str]) -> str:
    return agents[0] if len(agents) == 1 else f"{agents[0]} to {agents[-1].rpartition('_')[2]}"


def _mean(row: dict[str, Any], kind: str) -> str:
    half = float(f"{row[f'{kind} ±']:.2g}")
    return f"{row[kind]:,g}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{half:,g}"


def _count(name: str, rows: Sequence[dict[str, Any]]) -> str:
    counts = Counter(row["verdict"] for row in rows)
    return f"| {name} | {len(rows)} | {' | '.join(str(counts[x]) for x in VERDICTS)} |"


def _library(row: dict[str, Any]) -> str:
    return row["id"].partition("/")[0]
