"""All that results, verdicts and ports say of each id, for its card: on the site and in `show`."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import accelerators, files, ids, lowers, matches, scores
from benchmarks.libraries import LIBRARIES, head, verdicts, with_adapter
from benchmarks.tasks import SECONDS, TASKS

PATH = Path(__file__).parents[1] / "envrax/libraries/known.json"
WORLD = " as a world"
HOW = {"jumanji": 'options={"agents": "all"}', "pgx": 'options={"player": "all"}'}
POINTS = 12  # of a curve
# Why an id is not built, in place of the library's error.
NEEDS = {
    "gymnax/MNISTBandit": "a download of MNIST, 11 MB",
    "jumanji/Sokoban": "a download of levels, unless you pass a generator",
    "playground/": "the models of MuJoCo Menagerie, a repository",
    "jaxmarl/JaxRobotarium": "the package jaxrobotarium",
    "jaxmarl/LearnedPolicyEnemySMAX": "`policy` and `params` in `options`",
    "brax/swimmer": "JAX 0.9: newer ones removed a keyword that it uses",
}


def text() -> str:
    """The file of the package: a line for each id."""
    lines = [
        f"{json.dumps(id)}: {json.dumps(row, separators=(',', ':'), ensure_ascii=False)}"
        for id, row in every()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def every() -> Iterator[tuple[str, dict[str, Any]]]:
    """The ids of all libraries, with what is known of each."""
    for library in dict.fromkeys(("classic", *with_adapter())):
        yield library, about(library)
    for library in LIBRARIES:
        found = verdicts(library)
        speeds, whys = ids.rows(library), files.read(f"ids/{library}").get("why", {})
        learned, lowered = scores.rows(library), lowers.rows(library)
        own, ports = dict(_own(library)), dict(_ports(library))
        for id in sorted(id for id in found if WORLD not in id):
            row: dict[str, Any] = _checked(id, found[id])
            if world := found.get(id + WORLD):
                row["world"] = {"how": HOW[library], **_checked(id, world)}
            if "trained" in learned.get(id, {}):
                row |= _learned(learned[id])
            if id in speeds:
                row["speed"] = [speeds[id][x] for x in ("compile", "bytes", "64", "1024")]
            elif id in whys:
                row["no speed"] = _sentence(id, whys[id])
            row |= {"own": own[id]} if id in own else {}
            row |= {"h100": kernels} if (kernels := _on_h100(id)) else {}
            row |= {"ports": ports[id]} if id in ports else {}
            row |= {"lowered": _lowered(id, lowered[id])} if id in lowered else {}
            yield id, row


def about(library: str) -> dict[str, str]:
    """The licence of a library, how to cite it, and how it was measured."""
    found = {name: x for name, x in head(library).items() if name in ("licence", "cite")}
    return {**found, **({"measured": when} if (when := measured(library)) else {})}


def measured(library: str) -> str:
    """When, on what and with which versions a library was measured."""
    parts: list[str] = []
    for kind, name in (("speed", "ids"), ("its own loop", "interop"), ("ports", "matches")):
        found = files.read(f"{name}/{library}")
        if found["tables"] or found.get("matches"):
            parts.append(f"{kind} on {found['date']}, {_short_machine(found['machine'], library)}")
    rows = [row for row in scores.rows(library).values() if "trained" in row]
    if rows:
        day = files.read(f"scores/{library}")["date"]
        versions = ", ".join(f"{name} {x}" for name, x in rows[-1]["versions"].items())
        parts.append(f"learned on {day}, {versions}")
    return "; ".join(parts)


def _short_machine(machine: str, library: str) -> str:
    """The cores, the processor, Python, JAX and the library, without all others."""
    kept = {"Python", "envrax", "jax", library}
    head, _, versions = machine.partition(", Python ")
    items = [item for item in f"Python {versions}".split(", ") if item.split()[0] in kept]
    return ", ".join([head, *items])


def _checked(id: str, row: dict[str, Any]) -> dict[str, Any]:
    """Spaces, agents, mask, and the verdict of `check_env`."""
    if "obs" not in row:
        return {"verdict": f"{row['verdict']}: {_sentence(id, row['why'])}"}
    limit = 0 if row["limit"] == "none" else row["limit"]
    why = f": {row['why']}" if row["why"] else ""
    found = {"obs": row["obs"], "action": row["action"], "limit": limit}
    found |= {"agents": row["agents"]} if row.get("agents") else {}
    found |= {"mask": True} if row.get("mask") else {}
    return {**found, "verdict": row["verdict"] + why}


def _learned(row: dict[str, Any]) -> dict[str, Any]:
    task = next(task for task in TASKS if task.id == row["id"])
    points = [(int(steps), value) for steps, value in row["curves"][0].items()]
    if len(points) > POINTS:
        points = [points[i * (len(points) - 1) // (POINTS - 1)] for i in range(POINTS)]
    found: dict[str, Any] = {
        "learned": row["verdict"],
        "trained": [[row[kind], row[f"{kind} ±"]] for kind in ("random", "trained")],
        "steps": round(sum(row["steps"]) / len(row["steps"])),
        "by": _by(row),
    }
    found |= {"who": _who(task.agents)} if task.agents else {}
    found |= {"known": [row["known"], row["source"]]} if "known" in row else {}
    found |= {"unlearned": row["why"]} if "why" in row else {}
    return {**found, **({"curve": points} if len(points) > 1 else {})}


def _by(row: dict[str, Any]) -> str:
    """The algorithm, its network if it is not that of vectors, and a time other than most have."""
    network = f" with {row['network']}" if "network" in row else ""
    seconds = f", {row['seconds']:g} CPU seconds" if row.get("seconds", SECONDS) != SECONDS else ""
    return f"{row['algorithm']}{network}{seconds}"


def _who(agents: tuple[str, ...]) -> str:
    return agents[0] if len(agents) == 1 else f"{agents[0]} to {agents[-1].rpartition('_')[2]}"


def _own(library: str) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """The time of a library's own loop, and of Stoa's, by id."""
    found: dict[str, dict[str, list[float]]] = {}
    tables = files.read(f"interop/{library}")["tables"]
    for title in sorted(tables, key=lambda title: int(title.partition(", N = ")[2])):
        ways = found.setdefault(title.partition(", N = ")[0], {})
        for way, figures in tables[title].items():
            if way != "envrax":
                name = re.sub(f"^{library}", "its own loop", way)
                ways.setdefault(name, []).append(float(f"{figures['ratio']:.2f}"))
    yield from found.items()


def _ports(library: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Originals, verdicts and what differs, by id."""
    found: dict[str, list[list[str]]] = {}
    for port, row in matches.every_port():
        if port.id.partition("/")[0] == library:
            why = port.cause or row.get("error", "") or matches.differing(row)
            found.setdefault(port.id, []).append([port.original, row["verdict"], why])
    yield from found.items()


def _on_h100(id: str) -> str:
    """What XLA compiles for a step; nothing was timed."""
    tables = accelerators.read(id.partition("/")[0])["tables"]
    few, many = accelerators.SIZES
    row = accelerators.chosen(tables.get(accelerators.title_of(id, "H100", few), {}))
    if not row:
        return ""
    large = accelerators.chosen(tables.get(accelerators.title_of(id, "H100", many), {})) or row
    text = f"with {few:,} slots {accelerators.in_words(row)}; {large['bytes a slot']:,.0f} bytes a "
    return f"{text}slot, {accelerators.slots_in_80_gb(large)} slots in 80 GB; compiled, not timed"


def _lowered(id: str, row: dict[str, str]) -> str | int:
    """1 if for both, which most are; else why not."""
    failed = {platform: _sentence(id, why) for platform, why in row.items() if why != "yes"}
    if not failed:
        return 1
    names = " nor ".join(name.upper() for name in failed)
    return f"not for {names}: {'; '.join(dict.fromkeys(failed.values()))}"


def _sentence(id: str, error: str) -> str:
    """What an id needs, or the error without its class and the id."""
    for start, what in NEEDS.items():
        if id.startswith(start):
            return f"needs {what}"
    before, _, after = error.partition(f"Error: {id}: ")
    return after or before
