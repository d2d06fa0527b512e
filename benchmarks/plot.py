"""A bar chart of tables: the time of each candidate, as a multiple of the first."""

import textwrap
from pathlib import Path

from benchmarks.measure import Table

OURS, THEIRS, INK = "#2f6fde", "#b8bfca", "#444444"


def save(path: Path, tables: list[Table], caption: str) -> None:
    """
    Draw a panel of bars for each table.

    Parameters
    ----------
    path : Path
        The PNG file.
    tables : list of Table
        The panels, from top to bottom.
    caption : str
        The machine and versions.
    """
    from matplotlib.figure import Figure  # slow to import

    heights = [len(table.seconds) for table in tables]
    figure = Figure(figsize=(9, 1.2 + 0.42 * sum(heights) + 0.7 * len(tables)), dpi=120)
    panels = figure.subplots(len(tables), squeeze=False, height_ratios=heights)[:, 0]
    for axes, table in zip(panels, tables, strict=True):
        names = list(table.seconds)
        ratios = [table.ratio(name) for name in names]
        colours = [OURS, *[THEIRS] * (len(names) - 1)]
        bars = axes.barh(names, ratios, color=colours, height=0.65)
        labels = [
            f" {table.median(name)} {table.unit}   {ratio:.2f}x"
            for name, ratio in zip(names, ratios, strict=True)
        ]
        axes.bar_label(bars, labels, color=INK, fontsize=8)
        axes.set_xlim(0, 1.45 * max(ratios))
        axes.set_title(table.title, loc="left", fontsize=10, fontweight="bold", color=INK)
        axes.invert_yaxis()
        axes.tick_params(colors=INK, labelsize=8, length=0)
        axes.xaxis.set_visible(False)
        axes.spines[:].set_visible(False)
    note = textwrap.fill(f"Median times; a step is one of the whole batch. {caption}", 150)
    figure.text(0.01, 0.01, note, fontsize=6, color=INK)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(path)
