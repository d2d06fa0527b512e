"""
What can be learned, and how well: the examples' PPO and DQN on ids of every library.

    python -m benchmarks scores                                    all tasks
    python -m benchmarks scores gymnax pgx/2048 --seconds 90       a library, an id
    python -m benchmarks scores --check                            eight ids
    python -m benchmarks scores --judge                            the verdicts of known results

A process of its own learns each task, for so many CPU seconds on one core after compilation, so
that other work on the machine hardly matters. Results go to
`benchmarks/results/scores/LIBRARY.json` as they come, and parameters to `runs/scores`; tasks that
have a result are not learned again, unless `--again` is given. `--check` fails if an id gains less
than a third of what its result says.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import files
from benchmarks.libraries import first_line
from benchmarks.tasks import CHECKED, TASKS, WHY, Task

LEAST = 1 / 3  # of a published gain, in a check
LIBRARIES = tuple(dict.fromkeys(task.library for task in TASKS))
DISTRIBUTIONS = {"classic": "envrax", "kinetix": "kinetix-env"}
ERRORS = 1.96  # standard errors: half of a 95 % interval
POINTS = 20  # of a learning curve
PARAMS = Path(__file__).parents[1] / "runs/scores"


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("ids", nargs="*", help=f"ids, or of {', '.join(LIBRARIES)}; default all")
    parser.add_argument(
        "--seconds", type=float, help="CPU seconds of training; default that of the task"
    )
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each id, by seed")
    parser.add_argument("--again", action="store_true", help="learn what has a result, too")
    parser.add_argument("--check", action="store_true", help="compare with the results so far")
    parser.add_argument("--judge", action="store_true", help="learn nothing")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    chosen = tasks(given.ids or (CHECKED if given.check else ()))
    if given.judge:
        judge()
    elif given.check:
        sys.exit(check(chosen, given.seconds))
    elif given.child:
        [task] = chosen
        add(task, {"failed": "the process ended"})  # what stays if it does
        try:
            row = learned(task, given.seconds, range(given.seeds), params_path(task.id))
            add(task, row)
        except Exception as error:
            add(task, {"failed": first_line(error)})
            raise
    else:
        for task in chosen:
            if given.again or is_missing(task):
                child = [sys.executable, "-m", "benchmarks", "scores", task.id, "--child"]
                seconds = given.seconds or task.seconds
                how = ["--seconds", f"{seconds}", "--seeds", f"{given.seeds}"]
                subprocess.run([*child, *how])


def tasks(names: Sequence[str]) -> list[Task]:
    """The tasks of these ids and libraries; all of them if there are none."""
    known = {*LIBRARIES, *(task.id for task in TASKS)}
    if unknown := [name for name in names if name not in known]:
        sys.exit(
            f"scores: expected ids of benchmarks/tasks.py or libraries of {', '.join(LIBRARIES)}; "
            f"got {', '.join(unknown)}"
        )
    return [task for task in TASKS if not names or {task.id, task.library} & {*names}]


def learned(
    task: Task, seconds: float, seeds: Sequence[int], params: Path | None = None
) -> dict[str, Any]:
    """Train with each seed; the row of the results. `params` is a file for those of the first."""
    import envrax
    from benchmarks import learners

    if hasattr(os, "sched_setaffinity"):  # not on macOS
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    learner = learners.LEARNERS[task.algorithm](task)
    trained, returns = [], []
    for seed, found in zip(seeds, learners.train(learner, seeds, seconds), strict=True):
        trained.append(found)
        returns.append(learner.evaluate(found.params, uniform=False))
        print(f"{task.id}, seed {seed}: {found.steps:,} steps, {returns[-1].mean():.4g}")
    first = trained[0]
    random = learner.evaluate(first.params, uniform=True)
    if params is not None:
        envrax.save(params, first.params)
    row = {
        "id": task.id,
        **_spread("random", random),
        **_spread("trained", np.concatenate(returns)),
        "algorithm": task.algorithm,
        **({"network": learner.network} if learner.network else {}),
        "hyper-parameters": learner.hyper,
        "seeds": [*seeds],
        "seconds": seconds,
        "steps": [found.steps for found in trained],
        "cpu": [round(found.cpu, 1) for found in trained],
        "wall": [round(found.wall, 1) for found in trained],
        "compile": round(first.compiled, 1),
        "curves": [{n: _short(x) for n, x in _thinned(found.curve)} for found in trained],
        "versions": versions(task.library),
    }
    return judged(row, task)


def _spread(name: str, returns: np.ndarray) -> dict[str, float]:
    """The mean of episodes, their standard deviation, and half of the mean's 95 % interval."""
    deviation = returns.std(ddof=1)
    half = ERRORS * deviation / np.sqrt(returns.size)
    numbers = {name: returns.mean(), f"{name} std": deviation, f"{name} ±": half}
    return {name: _short(x) for name, x in numbers.items()}


def _thinned(curve: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """At most `POINTS` of a curve, with the first and the last."""
    chosen = np.linspace(0, len(curve) - 1, min(POINTS, len(curve))).round()
    return [curve[int(i)] for i in chosen]


def _short(x: float) -> float:
    return float(f"{x:.4g}")


def judged(row: dict[str, Any], task: Task) -> dict[str, Any]:
    """The row with what is known of the task and its verdict."""
    row = {k: v for k, v in row.items() if k not in ("known", "source", "verdict", "why")}
    if "trained" not in row:
        return row
    known: dict[str, Any] = {}
    if task.known is not None:
        known = {"known": task.known, "source": task.source}
    verdict = verdict_of(row, task.known)
    why = {"why": WHY.get(task.id, "not looked into")} if verdict == "does not learn" else {}
    return {**row, **known, "verdict": verdict, **why}


def verdict_of(row: dict[str, Any], known: float | None) -> str:
    """
    `solved`, `learns` or `does not learn`.

    An id is solved at its known score. It learns if the 95 % intervals of the means of random play
    and of the trained policy do not touch.
    """
    gain = row["trained"] - row["random"]
    if gain <= row["trained ±"] + row["random ±"]:
        return "does not learn"
    return "solved" if known is not None and row["trained"] >= known else "learns"


def check(chosen: Sequence[Task], seconds: float | None = None) -> int:
    """Train the tasks; how many gain too little, or have no result to compare with."""
    n_failed = 0
    for task in chosen:
        before = rows(task.library).get(task.id, {})
        if "trained" not in before:
            print(f"{task.id}: FAILED: there is no result to compare with")
            n_failed += 1
            continue
        now = learned(task, seconds or task.seconds, [0])
        ok = keeps(before, now)
        n_failed += not ok
        compared = f"{now['trained']}, where the result is {before['trained']}, random play "
        print(f"{task.id}: {'ok' if ok else 'FAILED'}: {compared}{before['random']}", flush=True)
    return n_failed


def keeps(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether at least a third of the gain of a result is there again."""
    gain = before["trained"] - before["random"]
    return now["trained"] - before["random"] >= LEAST * gain


def judge() -> None:
    """Write the verdicts of known results again, after `tasks.py` changed."""
    for library in LIBRARIES:
        found = files.read(f"scores/{library}")
        before = rows(library)
        now = [judged(before[task.id], task) for task in TASKS if task.id in before]
        if now != [*before.values()]:
            more = {k: v for k, v in found.items() if k not in ("tables", "scores")}
            files.write(f"scores/{library}", {}, **more, scores=now)


def is_missing(task: Task) -> bool:
    return task.id not in rows(task.library)


def rows(library: str) -> dict[str, dict[str, Any]]:
    """What was found so far, by id."""
    return {row["id"]: row for row in files.read(f"scores/{library}").get("scores", [])}


def every_row() -> Iterator[dict[str, Any]]:
    """All rows with a score, in the order of the tasks."""
    for task in TASKS:
        row = rows(task.library).get(task.id, {})
        if "trained" in row:
            yield row


def add(task: Task, row: dict[str, Any]) -> None:
    every = {**rows(task.library), task.id: {"id": task.id, **row}}
    files.write(f"scores/{task.library}", {}, scores=[*every.values()])


def params_path(id: str) -> Path:
    """Where the parameters of an id are."""
    library, _, name = id.partition("/")
    return PARAMS / library / f"{name.replace('/', '-')}.npz"


def versions(library: str) -> dict[str, str]:
    names = {"envrax", "jax", "flax", "optax", DISTRIBUTIONS.get(library, library)}
    return {name: metadata.version(name) for name in sorted(names)}
