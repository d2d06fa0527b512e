"""The pictures of `scan`, in README and the documentation, and of `slots`."""

import textwrap
from pathlib import Path

from benchmarks.choosing import LOOP, SCAN
from benchmarks.files import read

OURS = "#2f6fde"
THEIRS = "#b8bfca"
INK = "#7d8590"  # on a light page and on a dark one


def draw(folder: Path) -> None:
    """Draw a panel of bars for each table of `scan`: times, as multiples of the first row's."""
    from matplotlib.figure import Figure  # slow to import

    found = read("scan")
    tables = found["tables"]
    heights = [len(rows) for rows in tables.values()]
    figure = Figure(figsize=(9, 1.2 + 0.42 * sum(heights) + 0.7 * len(tables)), dpi=120)
    panels = figure.subplots(len(tables), squeeze=False, height_ratios=heights)[:, 0]
    for axes, (title, rows) in zip(panels, tables.items(), strict=True):
        ratios = [row["ratio"] for row in rows.values()]
        colours = [OURS, *[THEIRS] * (len(rows) - 1)]
        drawn = axes.barh(list(rows), ratios, color=colours, height=0.65)
        labels = [f" {row['median']:,.4g} µs   {row['ratio']:.2f}x" for row in rows.values()]
        axes.bar_label(drawn, labels, color=INK, fontsize=8)
        axes.set_xlim(0, 1.45 * max(ratios))
        axes.set_title(title, loc="left", fontsize=10, fontweight="bold", color=INK)
        axes.invert_yaxis()
        axes.tick_params(colors=INK, labelsize=8, length=0)
        axes.xaxis.set_visible(False)
        axes.spines[:].set_visible(False)
    note = f"Median times of a step of the whole batch. {found['machine']}"
    figure.text(0.01, 0.01, textwrap.fill(note, 150), fontsize=6, color=INK)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(folder / "cartpole.png", transparent=True)


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
