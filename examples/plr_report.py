"""The output of `plr.py`: a table, and a picture of the learning curves."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, PercentFormatter
from ppo_report import CORAL, GREY

TESTS = "uniform", "longest"
Curves = dict[str, np.ndarray]  # by way of training: for each seed, step and kind of test


def print_table(steps: np.ndarray, curves: Curves) -> None:
    """The share of mazes that are solved: the mean over seeds, the least and the most."""
    print(f"\n| steps | mazes | {' | '.join(curves)} |\n|---|---|{'---|' * len(curves)}")
    for t, step in enumerate(steps):
        for i, test in enumerate(TESTS):
            cells = [curve[:, t, i] for curve in curves.values()]
            shown = [f"{x.mean():.2f} ({x.min():.2f} .. {x.max():.2f})" for x in cells]
            print(f"| {step} | {test} | {' | '.join(shown)} |")


def save_curves(path: Path, steps: np.ndarray, curves: Curves) -> None:
    """
    Draw the mean over seeds, and the range.

    Parameters
    ----------
    path : Path
        The PNG file; its folder is created.
    steps : np.ndarray
        Environment steps at each evaluation.
    curves : dict
        From a way of training to the shares solved, of shape `(seeds, evaluations, 2)`.
    """
    figure = Figure(figsize=(9, 4), dpi=150, layout="constrained")
    both = figure.subplots(1, 2, sharey=True)
    for i, (axes, title) in enumerate(
        zip(both, ("Uniform mazes", "The longest mazes"), strict=True)
    ):
        for (name, curve), colour in zip(curves.items(), (GREY, CORAL), strict=True):
            solved = curve[:, :, i]
            axes.plot(steps, solved.mean(axis=0), color=colour, linewidth=2, label=name)
            low, high = solved.min(axis=0), solved.max(axis=0)
            axes.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.set_title(f"{title}, never trained on", loc="left", fontweight="bold")
        axes.set_xlabel("environment steps of training")
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.set_ylim(0, 1)
        axes.grid(color=GREY, alpha=0.2)
        axes.spines[["top", "right"]].set_visible(False)
    both[0].set_ylabel("solved")
    both[0].legend(frameon=False, loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
