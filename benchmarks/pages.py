"""
Write the figures of `benchmarks/results` into README and the documentation, and draw them.

    python -m benchmarks pages

`<!-- figures -->` stands before a table or a paragraph with figures. `benchmarks/figures.toml` says
where they come from: a list for each page, with a text for each of its comments, which has a place
for each number, in their order. A place is a file, a table, a row and a column, each by its name or
by a part that no other name has; backticks do not count. A place with fewer parts begins like the
one before, and `-` stands for a number that is not measured. A line break separates places as `|`
does:

    "docs/page.md" = [
      "scan / N = 64 / gymnax / median | ratio | - | N = 4096 / gymnax / ratio",
    ]

    <!-- figures -->

    gymnax takes 7.8 µs, 1.2 times as long; with 4096 slots it is 3.1 times.

The head of a table, code and links are passed over, and so is what follows the last place. The
numbers end at an empty line or at the next comment.

`envrax/libraries/known.json` is written, too: the cards of all ids, which `python -m envrax show`
prints and the site shows.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import accelerators, evidence, scores_page
from benchmarks.files import RESULTS, read
from benchmarks.libraries import LIBRARIES, PROJECT, head, verdicts, with_adapter

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
LISTED = Path(__file__).with_name("figures.toml")
ELSEWHERE = Path(__file__).with_name("elsewhere.json")
SYSTEMS = Path(__file__).with_name("systems.toml")
FIGURES = re.compile(r"(<!-- figures -->\s*)(.*?)(?=\n\s*\n|<!-- |\Z)", re.DOTALL)
NUMBER = re.compile(r"`[^`]*`|\]\([^)]*\)|((?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?)")
HEAD = re.compile(r"\|.*\n.*\n")
PEERS = ("Stoa",)


def main() -> None:
    from benchmarks.plot import draw, draw_slots

    evidence.PATH.write_text(evidence.text(), encoding="utf-8")
    for path in PAGES:
        before = path.read_text()
        if (after := written(before, places_of(path))) != before:
            path.write_text(after)
            print(f"{path.relative_to(ROOT)} has new figures")
    draw(ROOT / "docs/img")
    draw_slots(ROOT / "docs/img")


def places_of(path: Path) -> list[str]:
    """The places of a page's figures: a text for each of its comments."""
    listed = tomllib.loads(LISTED.read_text(encoding="utf-8"))
    return listed.get(path.relative_to(ROOT).as_posix(), [])


def written(text: str, listed: Sequence[str]) -> str:
    """A page with the figures of the results, each with as many decimals as it had."""

    def from_results(figure: str, place: str) -> str:
        decimals = len(figure.partition(".")[2])
        return f"{number(place):,.{decimals}f}"

    return change_figures(text, from_results, listed)


def change_figures(text: str, change: Callable[[str, str], str], listed: Sequence[str]) -> str:
    """A page in which each figure is `change(figure, its place)`; `listed` as `places_of`."""
    to_come = list(listed)

    def change_block(found: re.Match[str]) -> str:
        marker, block = found.groups()
        if not to_come:
            raise ValueError(f"expected places of {block!r} in {LISTED.name}; got none")
        head = HEAD.match(block)
        start = head.end() if head else 0
        remaining = list(_places(to_come.pop(0)))

        def change_number(found: re.Match[str]) -> str:
            if not found[1] or not remaining:
                return found[0]
            place = remaining.pop(0)
            return found[0] if place == "-" else change(found[1], place)

        changed = NUMBER.sub(change_number, block[start:])
        if remaining:
            raise ValueError(f"expected a number for each of {remaining}; got {block!r}")
        return marker + block[:start] + changed

    changed = FIGURES.sub(change_block, text)
    if to_come:
        raise ValueError(f"expected a comment `<!-- figures -->` for each of {to_come}; got none")
    return changed


def _places(listed: str) -> Iterator[str]:
    """The places that a comment lists, each with all of its parts."""
    before: list[str] = []
    for place in re.split(r"[|\n]", listed.strip()):
        parts = place.strip().split(" / ")
        if parts != ["-"]:
            parts = before[: len(before) - len(parts)] + parts
            before = parts
        yield " / ".join(parts)


def number(place: str) -> float:
    """The number at a place, such as `scan / N = 4096 / gymnax / ratio`."""
    name, *parts = place.split(" / ")
    found = read(name)["tables"]
    for part in parts:
        found = found[_key(found, part, place)]
    return found


def _key(found: dict[str, Any], part: str, place: str) -> str:
    names = {key.replace("`", ""): key for key in found}
    fitting = [part] if part in names else [name for name in names if part in name]
    if len(fitting) != 1:
        raise KeyError(f"{place}: expected one name with {part!r}; got {fitting or list(names)}")
    return names[fitting[0]]


def measured() -> Iterator[str]:
    """When and on what each file was measured."""
    yield "| results | measured on |"
    yield "|---|---|"
    runs: dict[tuple[str, str], list[str]] = {}
    for path in sorted(RESULTS.glob("**/*.json")):
        name = str(path.relative_to(RESULTS).with_suffix(""))
        found = read(name)
        runs.setdefault((found["date"], found["machine"]), []).append(f"`{name}`")
    for (day, machine), names in runs.items():
        yield f"| {', '.join(names)} | {day}, {machine} |"


def interop() -> Iterator[str]:
    """A library's own loop, Stoa and gxm, as multiples of `make_vec`."""
    yield f"| id | the library's own loop | {' | '.join(PEERS)} |"
    yield "|---" * (2 + len(PEERS)) + "|"
    for path in sorted(RESULTS.glob("interop/*.json")):
        rows: dict[str, dict[str, list[str]]] = {}
        tables = read(f"interop/{path.stem}")["tables"]
        for title in sorted(tables, key=lambda title: int(title.partition(", N = ")[2])):
            cells = rows.setdefault(title.partition(", N = ")[0], {})
            for way, figures in tables[title].items():
                cells.setdefault(way, []).append(f"{figures['ratio']:.2f}")
        for id, cells in rows.items():
            own = [(way, ", ".join(x)) for way, x in cells.items() if way.startswith(path.stem)]
            shown = [x if way == path.stem else f"{x} ({way.partition(', ')[2]})" for way, x in own]
            columns = ["; ".join(shown), *(", ".join(cells.get(peer, ())) for peer in PEERS)]
            yield f"| `{id}` | {' | '.join(columns)} |"


def checked() -> Iterator[str]:
    """The verdicts of `check_env`, counted by library."""
    every = {library: verdicts(library) for library in LIBRARIES}
    kinds = dict.fromkeys(["clean", "mended bounds", "waived", "not built"])
    kinds |= dict.fromkeys(row["verdict"] for rows in every.values() for row in rows.values())
    yield "| library | " + " | ".join(kinds) + " |"
    yield "|---" * (1 + len(kinds)) + "|"
    for library, rows in every.items():
        counts = Counter(row["verdict"] for row in rows.values())
        yield f"| {library} | " + " | ".join(str(counts[kind]) for kind in kinds) + " |"


def libraries() -> Iterator[str]:
    """A row for each library with an adapter."""
    yield "| prefix and extra | ids | `params` | `options` | masks | `render` |"
    yield "|---|---|---|---|---|---|"
    for library in with_adapter():
        found = head(library)
        extra = f", extra `{found['extra']}`" if "extra" in found else ""
        n = len([id for id in verdicts(library) if " as a world" not in id]) or "objects only"
        cells = (found.get(x, "") for x in ("parameters", "keywords", "masks", "render"))
        yield f"| [`{library}`]({library}.md){extra} | {n} | {' | '.join(cells)} |"


def extras() -> Iterator[str]:
    """What the extra of each library installs, and which JAX that allows."""
    yield "| extra | packages | JAX | in `interop` |\n|---|---|---|---|"
    for library in with_adapter():
        found = head(library)
        extra = found.get("extra", library.replace("_", "-"))
        allowed = f"`{found['jax']}`" if "jax" in found else "any"
        together = f"no: {found['alone']}" if "alone" in found else "yes"
        packages = ", ".join(f"`{package}`" for package in asked(extra))
        yield f"| `{extra}` | {packages} | {allowed} | {together} |"


def asked(extra: str) -> Iterator[str]:
    """The packages of an extra, and of those that it names."""
    for line in PROJECT["optional-dependencies"][extra]:
        if nested := re.fullmatch(r"envrax\[(.+)\]", line):
            for name in nested[1].split(","):
                yield from asked(name)
        else:
            yield line.partition(";")[0].strip()


def all_systems() -> list[dict[str, str]]:
    """Each system that goes in or out, the libraries with an adapter first."""
    found = tomllib.loads(SYSTEMS.read_text("utf-8"))
    adapters: list[dict[str, str]] = []
    for library, version in found["adapters"].items():
        page = (ROOT / f"docs/libraries/{library}.md").read_text("utf-8")
        title = re.findall("^# (.*)$", page, re.MULTILINE)[0]
        row = {"system": f"[{title}](../libraries/{library}.md) {version}", "way": "in"}
        row["call"] = f'`make("{library}/...")`, `wrap`' if verdicts(library) else "`wrap`"
        row["ran"] = "200 steps are those of the library by itself"
        row["test"] = next(
            str(x.relative_to(ROOT)) for x in ROOT.glob(f"tests/*/test_{library}.py")
        )
        adapters.append(row)
    listed = [{**row, "way": way} for way in ("in", "out") for row in found[way]]
    return [{"on": found["on"], **row} for row in adapters + listed]


def systems() -> Iterator[str]:
    """The table of all systems."""
    yield "| | system | call | what was run | on |"
    yield "|---|---|---|---|---|"
    for row in all_systems():
        ran = f"{row['ran']}: `{row['test']}`"
        yield f"| {row['way']} | {row['system']} | {row['call']} | {ran} | {row['on']} |"


# What the site shows in place of `<!-- fill NAME -->`: see .ci/fill.py.
def elsewhere() -> Iterator[str]:
    """What `benchmarks.elsewhere` found, a row for each environment."""
    yield "| package | environment | own loop | check | line |\n|---|---|---|---|---|"
    for name, row in json.loads(ELSEWHERE.read_text(encoding="utf-8")).items():
        package, _, env = name.partition(": ")
        line = re.sub(r"\bpeer\b", "env", row["line"].strip().replace("envrax.", ""))
        line = f"`{line}`" if line.startswith("wrap(") else "an adapter"
        broken = dict.fromkeys(re.findall(r"(\w+): expected", row["check"]))
        check = ", ".join(f"`{rule}`" for rule in broken) or row["check"]
        yield f"| {package} {row['version']} | {env} | {row['own loop']} | {check} | {line} |"


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "versions": measured,
    "loops": interop,
    "accelerators": accelerators.page,
    "checked": checked,
    "elsewhere": elsewhere,
    "extras": extras,
    "libraries": libraries,
    "systems": systems,
    "learned": scores_page.counts,
    "unlearned": scores_page.unlearned,
}
