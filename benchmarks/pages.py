"""
Write the figures of `benchmarks/results` into README and the documentation, and draw them.

    python -m benchmarks pages

A figure in a page is a number, and a comment that says where it stands: a file, then a table, a row
and a column, each by its name or by a part of it that no other name has.

    4096 CartPoles step 3.7<!-- scan / 4096 / gymnax / ratio --> times as fast

Between `<!-- begin NAME -->` and `<!-- end -->` stands what a function of `BLOCKS` returns.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.files import RESULTS, read

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
FIGURE = re.compile(r"(-?\d[\d,]*(?:\.\d+)?)<!-- ([^>]+? / [^>]+?) -->")
BLOCK = re.compile(r"(<!-- begin (\w+) -->\n).*?(?=<!-- end -->)", re.DOTALL)
PEERS = ("Stoa",)


def main() -> None:
    from benchmarks.interop_table import PAGE, page
    from benchmarks.plot import draw

    PAGE.write_text("\n".join(page()) + "\n")
    for path in PAGES:
        before = path.read_text()
        if (after := written(before)) != before:
            path.write_text(after)
            print(f"{path.relative_to(ROOT)} has new figures")
    draw(ROOT / "docs/img")


def written(text: str) -> str:
    """A page with the figures of the results, each with as many decimals as it had."""
    text = BLOCK.sub(lambda found: found[1] + "".join(f"{x}\n" for x in BLOCKS[found[2]]()), text)

    def figure(found: re.Match[str]) -> str:
        decimals = len(found[1].partition(".")[2])
        return f"{number(found[2]):,.{decimals}f}<!-- {found[2]} -->"

    return FIGURE.sub(figure, text)


def number(place: str) -> float:
    """The number at a place, such as `scan / 4096 / gymnax / ratio`."""
    name, *parts = place.split(" / ")
    found = read(name)["tables"]
    for part in parts:
        found = found[_key(found, part, place)]
    return found


def _key(found: dict[str, Any], part: str, place: str) -> str:
    keys = [part] if part in found else [key for key in found if part in key]
    if len(keys) != 1:
        raise KeyError(f"{place}: expected one name with {part!r}; got {keys or list(found)}")
    return keys[0]


def measured() -> Iterator[str]:
    """Where and when each file was measured."""
    yield "| results | on | with |"
    yield "|---|---|---|"
    runs: dict[tuple[str, str], list[str]] = {}
    for path in sorted(RESULTS.glob("**/*.json")):
        name = str(path.relative_to(RESULTS).with_suffix(""))
        found = read(name)
        runs.setdefault((found["date"], found["machine"]), []).append(f"`{name}`")
    for (day, machine), names in runs.items():
        yield f"| {', '.join(names)} | {day} | {machine} |"


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


BLOCKS: dict[str, Callable[[], Iterator[str]]] = {"measured": measured, "interop": interop}
