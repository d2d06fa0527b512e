"""
Fill the pages with what the code and the results know, while the site is built (`hooks` in
mkdocs.yml).

`<!-- fill NAME -->` in a page, with the quotation below it, gives way to it: in the repository the
quotation says where that stands. So data stands once. `templates` has the cards of a library and
the page of all ids.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import markdown
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import gallery, pages  # noqa: E402
from benchmarks.libraries import with_adapter  # noqa: E402
from envrax.command.find import FACETS, facets, words  # noqa: E402
from envrax.libraries import cards as evidence  # noqa: E402
from envrax.libraries import known  # noqa: E402
from envrax.registry import get_spec  # noqa: E402
from envrax.testing.rules import BATCHED_RULES, ENV_RULES, WORLD_RULES  # noqa: E402

MARK = re.compile(r"<!-- fill (\w+) -->\n(?:>.*\n)*")
WIDTH, HEIGHT = 260, 110  # of a curve
LEFT, BOTTOM, EDGE = 54, 18, 8  # room for its scales
PICTURES = ROOT / "docs/libraries"
CHOICES = {
    **FACETS,
    "speed": {f"{10**n}": f"over {evidence.short(10**n)}" for n in (4, 5, 6, 7)},
    "port": {x: x for x in ("the same", "the same step", "not refuted", "not the same")},
}


def on_config(config: Any) -> None:
    """In place of `libraries/*`, the index has the page of each library with an adapter."""
    for section in config.nav:
        for pages_in_it in section.values():
            if "libraries/*" in pages_in_it:
                place = pages_in_it.index("libraries/*")
                pages_in_it[place : place + 1] = [f"libraries/{x}.md" for x in with_adapter()]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Tables become part of the page; cards follow when it is HTML, so that no index lists them."""

    def filled(found: re.Match[str]) -> str:
        if found[1] in LISTS:
            return "".join(f"{line}\n" for line in LISTS[found[1]](Path(page.file.src_path).stem))
        if found[1] in TABLES:
            return "".join(f"{line}\n" for line in TABLES[found[1]]())
        return f"<!-- fill {found[1]} -->\n"

    return MARK.sub(filled, markdown)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    stem = Path(page.file.src_path).stem
    return re.sub(r"<!-- fill (\w+) -->", lambda found: PARTS[found[1]](stem), content)


def cards(library: str) -> str:
    """What is known of a library, and a card for each of its ids, which begins with what it is."""
    return TEMPLATES.get_template("cards.html").render(library=library)


def faults(library: str) -> Iterator[str]:
    """What is known to differ in a library from what one expects, by patterns of its ids."""
    for x in evidence.faults(library):
        some = f"`{x['ids']}`: " if x["ids"] != "*" else ""
        yield f"- {some}{evidence.told(x)}"


def surprises(_: str) -> Iterator[str]:
    """What libraries do against what one expects, by library."""
    for library, found in sorted(evidence.surprises().items()):
        yield f"\n## {library}\n"
        for x in found:
            here = "" if x["here"] == "said" else f" *{x['here'].capitalize()}.*"
            yield f"- **{x['name'].replace('-', ' ')}**: {evidence.told(x)}{here}"


def docstring(id: str) -> Markup:
    """Of the class and the config of an id, where no file of descriptions says what it is."""
    if evidence.described(id):
        return Markup()
    spec = get_spec(id)
    text = evidence.docstring(spec.env_class)
    config = f"`{spec.default_config}`: {evidence.docstring(type(spec.default_config))}"
    return Markup(markdown.markdown(f"{text}\n- **Config**: {config}", extensions=["tables"]))


def environments(_: str) -> str:
    """A form that filters, and a row for each id, with a link to its card."""
    return TEMPLATES.get_template("environments.html").render(choices=CHOICES)


def adapters() -> Iterator[str]:
    """The reference of each library: the class of its environments, and its functions."""
    public = r"^(?:class (?=\w+\((?:PeerEnv|TurnEnv|MujocoEnv)\))|def (?=wrap\(|randomizer\())(\w+)"
    for library in with_adapter():
        page, module = (
            ROOT / f"docs/libraries/{library}.md",
            ROOT / f"envrax/interop/{library}.py",
        )
        title = re.findall("^# (.*)$", page.read_text("utf-8"), re.MULTILINE)[0]
        yield f"## {title}\n"
        for name in re.findall(public, module.read_text("utf-8"), re.MULTILINE):
            yield f"::: envrax.interop.{library}.{name}\n"


def bridges() -> Iterator[str]:
    """The reference of the functions that lead out, and of those of spaces."""
    text = (ROOT / "envrax/interop/__init__.py").read_text("utf-8")
    for name in re.findall(
        r"^    from envrax\.interop\.(?:out\.|gymnasium_sp)\w+ import (\w+)", text, re.M
    ):
        yield f"::: envrax.interop.{name}\n"


def rules() -> Iterator[str]:
    """Tables of the rules of an environment, those of a world, and those of a batch."""
    names = {rule.name for rule in ENV_RULES}
    tables = {
        "rule of `check_env`": ENV_RULES,
        "rule for several agents": WORLD_RULES,
        "rule of `check_batched_env`": [r for r in BATCHED_RULES if r.name not in names],
    }
    for title, listed in tables.items():
        yield f"| {title} | what it checks |\n|---|---|"
        yield from (f"| `{rule.name}` | {rule.sentence} |" for rule in listed)
        yield ""
    shared = ", ".join(f"`{rule.name}`" for rule in BATCHED_RULES if rule.name in names)
    yield f"`check_batched_env` also checks {shared}."


def picture(id: str) -> Path | None:
    """The picture of an id, from its folder; a film of the trained policy where there is one."""
    paths = (gallery.trained_path(id), gallery.path_of(id))
    return next((path.relative_to(PICTURES) for path in paths if path.exists()), None)


def _axis_label(x: float) -> str:
    return f"{x:,.0f}" if abs(x) > 999 else f"{x:.4g}"


def curve(id: str) -> dict[str, Any]:
    """The returns while training, over environment steps, as lines of a drawing, and its scales."""
    points = evidence.curve(id)
    steps, values = zip(*points, strict=True)
    low, high = min(values), max(values)
    x_scale = (WIDTH - LEFT - EDGE) / (steps[-1] - steps[0])
    y_scale = (HEIGHT - BOTTOM - 2 * EDGE) / (high - low or 1.0)
    line = (
        f"{LEFT + (x - steps[0]) * x_scale:.1f},{EDGE + (high - y) * y_scale:.1f}"
        for x, y in points
    )
    drawn = {"line": " ".join(line), "low": _axis_label(low), "high": _axis_label(high)}
    return {**drawn, "first": evidence.short(steps[0]), "last": evidence.short(steps[-1])}


def facts(id: str) -> dict[str, str]:
    """Of the page of all ids: what the filter reads of an id, by the names of `CHOICES`."""
    row = known()[id]
    ports = {port[1].partition(";")[0].partition(" (")[0] for port in row.get("ports", [])}
    chosen = {name: "|".join(found) for name, found in facets(id).items()}
    speed = f"{row.get('speed', [0])[-1]:.0f}"
    return {**chosen, "speed": speed, "port": "|".join(sorted(ports)), "words": " ".join(words(id))}


def cells(id: str) -> dict[str, str]:
    """Of the page of all ids: the cells of an id, by their heads."""
    row = known()[id]
    returns = " → ".join(f"{value:,g}" for value, _ in row.get("trained", []))
    steps = evidence.short(row.get("steps", 0))
    fastest = row.get("speed", [0])[-1]
    return {
        "observations": row.get("obs", ""),
        "actions": row.get("action", ""),
        "learned": f"{returns} in {steps} steps, {row['learned']}" if returns else "",
        "steps a second": evidence.short(fastest) if fastest else "",
        "checked": row["verdict"].partition(":")[0],
    }


def anchor(id: str) -> str:
    """Of the card of an id, in the page of its library."""
    return re.sub(r"[^a-z0-9]+", "-", id.partition("/")[2].lower()).strip("-")


def in_html(text: str) -> Markup:
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {"anchor": anchor, "in_html": in_html}
TEMPLATES.globals |= {f.__name__: f for f in (picture, curve, docstring, facts, cells)}
TEMPLATES.globals |= {"evidence": evidence, "width": WIDTH, "height": HEIGHT, "left": LEFT}
TEMPLATES.globals |= {"bottom": BOTTOM, "edge": EDGE}
TABLES = {**pages.TABLES, "adapters": adapters, "bridges": bridges, "rules": rules}
LISTS = {"faults": faults, "surprises": surprises}
PARTS = {"cards": cards, "environments": environments}
