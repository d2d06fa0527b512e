"""The card of each id: what it is, spaces, returns, speed, checks, ports."""

import inspect
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from envrax.libraries import known

BLOCKS = "▁▂▃▄▅▆▇█"
COLUMNS = 12  # of a curve in a terminal
SIZES = "64", "1,024"  # slots


def card(id: str) -> list[tuple[str, str]]:
    """The lines of a card, each with its label; none if nothing is known of the id."""
    row = known().get(id)
    if not row:
        return []
    return [*what_it_is(id, row.get("obs", ""), row.get("action", "")), *_measured(row)]


@cache
def descriptions(library: str) -> dict[str, dict[str, Any]]:
    """
    What the environments of a library are, by patterns of their ids, from a file of `descriptions`.

    Empty where a docstring says it: for `classic`, and for libraries without an adapter.
    """
    path = Path(__file__).with_name("descriptions") / f"{library}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def described(id: str) -> dict[str, Any]:
    """What an environment is: of all tables whose pattern its id has, a later one wins."""
    library, _, name = id.partition("/")
    found: dict[str, Any] = {}
    for pattern, fields in descriptions(library).items():
        found |= fields if fnmatchcase(name, pattern) else {}
    return found


@cache
def surprises() -> dict[str, list[dict[str, str]]]:
    """What libraries do against what one expects, by library, as `surprises.toml` has it."""
    return tomllib.loads(Path(__file__).with_name("surprises.toml").read_text(encoding="utf-8"))


def faults(library: str, name: str | None = None) -> list[dict[str, str]]:
    """The surprises that reach a library's ids, or one of them."""
    found = [x for x in surprises().get(library, ()) if "ids" in x]
    return [x for x in found if name is None or fnmatchcase(name, x["ids"])]


def told(surprise: dict[str, str]) -> str:
    """What happens, where, and what to do instead."""
    text = f"{surprise['what']} {surprise.get('instead', '')}".strip()
    return f"{text} ({surprise['version']})"


def what_it_is(id: str, observations: Any, actions: Any) -> Iterator[tuple[str, str]]:
    """The first lines of a card: what is to be done, and what the elements of its spaces mean."""
    found = {label: _named(text) for label, text in described(id).items()}
    found["observations"] = joined(observations, found.get("observations", ""))
    found["actions"] = joined(actions, found.get("actions", ""))
    for label in ("about", "observations", "actions", "reward", "start", "ends"):
        if found.get(label):
            yield label, found[label]
    library, _, name = id.partition("/")
    if known_faults := faults(library, name):
        yield "faults", " ".join(map(told, known_faults))
    if "source" in found:
        yield "source", f"{found['source']} ({found['version']})"


def ids(library: str = "") -> list[str]:
    """The ids of a library, or of all, of which something is known."""
    return [id for id in known() if "/" in id and id.startswith(f"{library}/" if library else "")]


def docstring(cls: type) -> str:
    """The docstring of a class; empty where a dataclass wrote it itself."""
    text = inspect.cleandoc(cls.__doc__ or "")
    return "" if text.startswith(f"{cls.__name__}(") else text


def about(library: str) -> list[tuple[str, str]]:
    """The licence of a library, how to cite it, and how it was measured, each with a label."""
    return [*known().get(library, {}).items()]


def curve(id: str) -> list[tuple[float, float]]:
    """The returns while training: pairs of environment steps and a return."""
    return [(steps, value) for steps, value in known().get(id, {}).get("curve", [])]


def bars(returns: Sequence[float]) -> str:
    """Returns, from the lowest to the highest, as a row of bars."""
    if not returns or min(returns) == max(returns):
        return "▁" * bool(returns)
    shown = [*returns]
    if len(returns) > COLUMNS:
        shown = [returns[i * (len(returns) - 1) // (COLUMNS - 1)] for i in range(COLUMNS)]
    low, high = min(returns), max(returns)
    return "".join(BLOCKS[int((x - low) / (high - low) * 7.999)] for x in shown)


def short(x: float) -> str:
    """A number of three digits, such as 3.1, 4,430, 26 k or 1.2 M."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if x >= 10_000 and x >= size:
            return f"{x / size:.3g} {unit}"
    return f"{x:,.10g}"


def rows(facts: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """One row for each fact; what does not fit into 80 columns goes on below."""
    for label, value in facts:
        yield textwrap.fill(
            f"{label:<12}  {value}",
            80,
            subsequent_indent=" " * 14,
            break_long_words=False,
            break_on_hyphens=False,
        )


def _named(text: str | list[str]) -> str:
    """Each number with its name, if it is a list of names."""
    return text if isinstance(text, str) else ", ".join(f"{i} {x}" for i, x in enumerate(text))


def joined(space: Any, meaning: str) -> str:
    return ": ".join(filter(None, (f"{space}", meaning)))


def _measured(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if "obs" in row:
        yield "time limit", f"{row['limit']:,} steps" if row["limit"] else "none"
        yield "agents", ", ".join(row.get("agents", [])) or "one"
        yield "mask", "of legal actions" if row.get("mask") else "none: every action is legal"
    if "world" in row:
        world = row["world"]
        agents = f"{', '.join(world.get('agents', ()))}; observations {world['obs']}"
        actions = f"actions {world['action']}; {world['verdict']}"
        yield "as a world", f"{world['how']}: {agents}; {actions}"
    yield "learned", _learned(row) if "trained" in row else "not tried"
    if "curve" in row:
        (first, _), *_, (last, _) = row["curve"]
        returns = [value for _, value in row["curve"]]
        yield "curve", f"{bars(returns)} from {short(first)} to {short(last)} steps"
    yield "speed", _speed(row) if "speed" in row else row.get("no speed", "not measured")
    for way, ratios in row.get("own", {}).items():
        times = " and ".join(f"{x:.2f}" for x in ratios)
        sizes = " and ".join(SIZES[: len(ratios)])
        label, _, how = way.partition(", ")
        with_what = f" ({how})" if how else ""
        yield label, f"{times} times the time of make_vec, with {sizes} slots{with_what}"
    if "h100" in row:
        yield "on an H100", row["h100"]
    yield "checked", row["verdict"]
    for original, verdict, why in row.get("ports", []):
        yield "port of", f"{original}: {verdict}" + (f"; {why}" if why else "")
    lowered = row.get("lowered", "not tried")
    yield "lowered", "for CUDA and TPU" if lowered == 1 else lowered


def _learned(row: dict[str, Any]) -> str:
    returns = [f"{value:,g} ± {float(f'{half:.2g}'):,g}" for value, half in row["trained"]]
    text = (
        f"{row['learned']}: {returns[0]} at random, {returns[1]} after {short(row['steps'])} steps"
    )
    who = f", {row['who']}" if "who" in row else ""
    known = f"; known: {row['known'][0]:,g}, {row['known'][1]}" if "known" in row else ""
    why = f"; {row['unlearned']}" if "unlearned" in row else ""
    return f"{text} of {row['by']}{who}{known}{why}"


def _speed(row: dict[str, Any]) -> str:
    compiled, size, *speeds = row["speed"]
    rates = ", ".join(
        f"{short(x)} steps with {n} slots" for x, n in zip(speeds, SIZES, strict=True)
    )
    return f"{rates} in a second; {short(size)} bytes a slot; first steps after {compiled:g} s"
