"""
Fill the pages with what results know, while the site is built (`hooks` in mkdocs.yml).

`<!-- fill NAME -->` in a page, with the quotation below it, gives way to what the results know: in
the repository the quotation says where that stands. So data stands once, in `benchmarks`.
"""

import html
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import gallery, pages  # noqa: E402
from envrax import libraries  # noqa: E402
from envrax.libraries import cards as known  # noqa: E402

MARK = re.compile(r"<!-- fill (\w+) -->\n(?:>.*\n)*")
KEPT = re.compile(r"<!-- fill (\w+) -->")
WIDTH, HEIGHT = 260, 110  # of a curve
LEFT, BOTTOM, EDGE = 54, 18, 8  # room for its scales
PICTURES = ROOT / "docs/libraries"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Tables become part of the page; cards follow when it is HTML, so that no index lists them."""

    def filled(found: re.Match[str]) -> str:
        if found[1] in pages.TABLES:
            return "".join(f"{line}\n" for line in pages.TABLES[found[1]]())
        return f"<!-- fill {found[1]} -->\n"

    return MARK.sub(filled, markdown)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    stem = Path(page.file.src_path).stem
    return KEPT.sub(lambda found: "\n".join(PARTS[found[1]](stem)), content)


def cards(library: str) -> Iterator[str]:
    """What is known of a library, and a card for each of its ids."""
    yield '<dl class="about" data-search-exclude>'
    yield from (f"<dt>{label}</dt><dd>{in_html(x)}</dd>" for label, x in known.about(library))
    yield "</dl>"
    if len(known.ids(library)) > 12:
        links = (
            f'<a href="#{anchor(id)}">{html.escape(id.partition("/")[2])}</a>'
            for id in known.ids(library)
        )
        yield f'<nav class="jump" data-search-exclude>{" ".join(links)}</nav>'
    for id in known.ids(library):
        yield f'<section class="card"><h3 id="{anchor(id)}"><code>{html.escape(id)}</code>'
        yield f'<a class="headerlink" href="#{anchor(id)}" title="Permanent link">¶</a></h3>'
        yield f'<div class="facts" data-search-exclude>{picture(id)}<dl>'
        for label, text in known.card(id):
            shown = f"{svg(id)}" if label == "curve" else in_html(text)
            yield f"<dt>{label}</dt><dd>{shown}</dd>"
        yield "</dl></div></section>"


def picture(id: str) -> str:
    """The picture of an id; a film of the trained policy where there is one."""
    trained = gallery.trained_path(id)
    path = trained if trained.exists() else gallery.path_of(id)
    if not path.exists():
        return ""
    about = f"{id}, played by the trained policy" if path == trained else id
    where = f"../{path.relative_to(PICTURES).as_posix()}"
    return f'<img src="{where}" alt="{html.escape(about)}" title="{html.escape(about)}">'


def svg(id: str) -> str:
    """The returns while training, over environment steps, with the scales of both."""
    points = known.curve(id)
    first, last = points[0][0], points[-1][0]
    low, high = (pick(value for _, value in points) for pick in (min, max))
    spread = high - low or 1.0

    def place(steps: float, value: float) -> str:
        x = LEFT + (steps - first) / (last - first) * (WIDTH - LEFT - EDGE)
        return f"{x:.1f},{EDGE + (high - value) / spread * (HEIGHT - BOTTOM - 2 * EDGE):.1f}"

    line = " ".join(place(*point) for point in points)
    floor = HEIGHT - BOTTOM
    about = f"return from {low:,.4g} to {high:,.4g} over {known.short(last)} environment steps"
    return (
        f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{about}">'
        f'<path d="M{LEFT} {EDGE // 2}V{floor}H{WIDTH - EDGE}"/><polyline points="{line}"/>'
        f'<text x="{LEFT - 4}" y="{EDGE + 5}" text-anchor="end">{high:,.4g}</text>'
        f'<text x="{LEFT - 4}" y="{floor - EDGE + 4}" text-anchor="end">{low:,.4g}</text>'
        f'<text x="{LEFT}" y="{HEIGHT - 4}">{known.short(first)}</text>'
        f'<text x="{WIDTH - EDGE}" y="{HEIGHT - 4}" text-anchor="end">'
        f"{known.short(last)} steps</text></svg>"
    )


def environments(_: str) -> Iterator[str]:
    """A form that filters, and a row for each id, with a link to its card."""
    yield '<form class="filters"><input type="search" name="words" aria-label="Words" '
    yield 'placeholder="Words: minatar clean, Discrete(3), ...">'
    for name, choices in CHOICES.items():
        yield f'<label>{name}<select name="{name}"><option value="">any</option>'
        yield from (f'<option value="{value}">{text}</option>' for value, text in choices.items())
        yield "</select></label>"
    yield "<output></output></form>"
    yield '<table class="ids" data-search-exclude><thead><tr><th></th><th>id</th>'
    yield "<th>observations</th><th>actions</th><th>learned</th><th>steps a second</th>"
    yield "<th>checked</th></tr></thead><tbody>"
    for id in known.ids():
        yield row_of(id)
    yield "</tbody></table>"


CHOICES = {
    "agents": {"one": "one", "several": "several"},
    "observations": {x: x for x in ("vector", "grid", "pixels", "several arrays")},
    "actions": {x: x for x in ("discrete", "continuous", "several")},
    "learned": {x: x for x in ("solved", "learns", "does not learn", "not tried")},
    "speed": {f"{10**n}": f"over {known.short(10**n)}" for n in (4, 5, 6, 7)},
    "port": {x: x for x in ("the same", "the same step", "not refuted", "not the same")},
}


def row_of(id: str) -> str:
    """A row of the page of all ids, with what the filter reads."""
    row, library = libraries.known()[id], id.partition("/")[0]
    obs, action = row.get("obs", ""), row.get("action", "")
    fastest = row.get("speed", [0])[-1]
    returns = [f"{value:,g}" for value, _ in row.get("trained", [])]
    verdict = row["verdict"].partition(":")[0]
    ports = {port[1].partition(";")[0].partition(" (")[0] for port in row.get("ports", [])}
    data = {
        "agents": "several" if "agents" in row or "world" in row else "one",
        "observations": kind_of(obs),
        "actions": "continuous" if action.startswith("Box float") else "discrete",
        "learned": row.get("learned", "not tried"),
        "speed": f"{fastest:.0f}",
        "port": "|".join(sorted(ports)),
    }
    if not action.startswith(("Box", "Discrete")):
        data["actions"] = "several"
    attributes = " ".join(f'data-{name}="{html.escape(x)}"' for name, x in data.items() if x)
    cells = {
        "observations": obs,
        "actions": action,
        "learned": f"{' → '.join(returns)}, {row['learned']}" if returns else "",
        "steps a second": known.short(fastest) if fastest else "",
        "checked": verdict,
    }
    link = f'<a href="../{library}/#{anchor(id)}"><code>{html.escape(id)}</code></a>'
    shown = (
        f'<td><span data-head="{head}">{html.escape(x)}</span></td>' if x else "<td></td>"
        for head, x in cells.items()
    )
    return f"<tr {attributes}><td>{picture(id)}</td><td>{link}</td>{''.join(shown)}</tr>"


def kind_of(space: str) -> str:
    """Of an observation; pixels have two axes of 32 or more."""
    if space.startswith("{") or "arrays" in space or space.startswith("("):
        return "several arrays"
    sizes = [int(size) for size in re.findall(r"\d+", space.partition("[")[2])]
    if sum(size >= 32 for size in sizes) >= 2:
        return "pixels"
    return "grid" if len(sizes) > 1 else "vector" if space else ""


def anchor(id: str) -> str:
    """Of the card of an id, in the page of its library."""
    return re.sub(r"[^a-z0-9]+", "-", id.partition("/")[2].lower()).strip("-")


def in_html(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text, quote=False))


PARTS: dict[str, Callable[[str], Iterator[str]]] = {"cards": cards, "environments": environments}
