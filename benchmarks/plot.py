"""The picture of `scan` in README and the documentation."""

import textwrap
from pathlib import Path

from benchmarks.files import read

OURS = "#2f6fde"
THEIRS = "#b8bfca"
INK = "#444444"


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
    figure.savefig(folder / "cartpole.png")
