"""The pictures of `scan`, in README and the documentation, and of `slots`."""

import textwrap
from pathlib import Path

from benchmarks.choosing import LOOP, SCAN
from benchmarks.files import read

OURS = "#2f6fde"
THEIRS = "#b8bfca"
INK = "#7d8590"  # on a light page and on a dark one


def draw(folder: Path) -> None:
    """Draw a panel for each table of `scan`: times of a step, as multiples of the first row's."""
    import matplotlib as mpl  # slow to import

    # No random ids, and no date below: equal drawings are equal files.
    with mpl.rc_context({"svg.hashsalt": "envrax", "font.size": 13}):
        _draw(folder / "cartpole.svg")


def _draw(path: Path) -> None:
    from matplotlib.figure import Figure

    beside = read("envpool")["tables"]
    tables = read("scan")["tables"]
    for title, rows in tables.items():
        rows["EnvPool, in a separate run"] = beside[title]["EnvPool, C++ threads"]
    figure = Figure(figsize=(6, 0.5 * sum(len(rows) + 1 for rows in tables.values())))
    panels = figure.subplots(len(tables), squeeze=False)[:, 0]
    for axes, (title, rows) in zip(panels, tables.items(), strict=True):
        ratios = [row["ratio"] for row in rows.values()]
        colours = [OURS, *[THEIRS] * (len(rows) - 1)]
        axes.barh(list(rows), ratios, color=colours, height=0.4, align="edge")
        for place, (name, row) in enumerate(rows.items()):
            axes.text(0, place - 0.1, name, color=INK)  # above its bar: a phone is narrow
            time, ratio = (f"{x:,.{int(x < 10)}f}" for x in (row["median"], row["ratio"]))
            axes.text(row["ratio"], place + 0.2, f"  {time} µs, {ratio}x", color=INK, va="center")
        axes.set_xlim(0, 1.4 * max(ratios))
        axes.set_title(title, loc="left", fontweight="bold", color=INK)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_axis_off()
    figure.tight_layout()
    figure.savefig(path, transparent=True, metadata={"Date": None})


def draw_slots(folder: Path) -> None:
    """Draw steps per second by number of slots: a curve for a scan, one for a Python loop."""
    from matplotlib.figure import Figure

    found = read("slots")
    [rows] = found["tables"].values()
    numbers = [int(name.partition(" = ")[2]) for name in rows]
    figure = Figure(figsize=(7, 3.6), dpi=120)
    axes = figure.subplots()
    for way, colour in ((SCAN, OURS), (LOOP, "#7c8594")):
        axes.plot(numbers, [row[way] for row in rows.values()], "o-", color=colour, label=way)
    axes.set_xscale("log", base=2)
    axes.set_xticks(numbers, [f"{n:,}" for n in numbers])
    axes.set_ylim(0)
    axes.set_xlabel("slots", color=INK, fontsize=9)
    title = "CartPole, million steps per second of all slots"
    axes.set_title(title, loc="left", fontsize=10, color=INK)
    axes.tick_params(colors=INK, labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(INK)
    axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    figure.text(0.01, 0.01, textwrap.fill(found["machine"], 130), fontsize=6, color=INK)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(folder / "slots.png", transparent=True)
