"""The pictures of figures in the documentation, from `benchmarks/results`."""

import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.files import read

OURS, THEIRS, INK = "#2f6fde", "#b8bfca", "#444444"


def draw(folder: Path) -> None:
    """Draw the pictures whose results are there."""
    for name, picture in (("scan", bars), ("physics-training", grids)):
        found = read(name)
        if found["tables"]:
            picture(folder / PICTURES[name], found)


PICTURES = {"scan": "cartpole.png", "physics-training": "physics.png"}


def bars(path: Path, found: dict[str, Any]) -> None:
    """Draw a panel of bars for each table: times, as multiples of the first row's."""
    from matplotlib.figure import Figure  # slow to import

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
    figure.savefig(path)


def grids(path: Path, found: dict[str, Any]) -> None:
    """Draw a heat map for each table, whose rows and columns are factors of mass and force."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(9.6, 4.9), dpi=150, layout="constrained")
    tables = {k: v for k, v in found["tables"].items() if k.startswith("trained")}
    panels = figure.subplots(1, len(tables), sharey=True)
    for panel, (title, rows) in zip(panels, tables.items(), strict=True):
        values = np.array([list(row.values()) for row in rows.values()])
        labels = [name.split()[-1] for name in rows]
        panel.imshow(values, origin="lower", vmin=0, vmax=1000)
        for (row, column), value in np.ndenumerate(values):
            colour = "white" if value < 600 else "black"
            panel.text(column, row, f"{value:.0f}", ha="center", va="center", color=colour)
        across = 5  # cells of what is drawn: from a quarter to four times, in steps of two
        corner = len(values) // 2 - across / 2
        frame = Rectangle((corner, corner), across, across, fill=False, edgecolor="white", lw=2)
        panel.add_patch(frame)
        panel.set_title(f"{title}: {values.mean():.0f} on average", loc="left", size=10)
        panel.set_xlabel("force of the motor, times the model's")
        panel.set_xticks(range(len(labels)), labels)
        panel.set_yticks(range(len(labels)), labels)
    panels[0].set_ylabel("mass of the pole, times the model's")
    figure.colorbar(panels[0].images[0], ax=list(panels), label="return of an episode")
    figure.savefig(path)
