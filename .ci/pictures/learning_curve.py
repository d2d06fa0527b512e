"""CartPole's learning curve under `examples/ppo.py`."""

import sys
from pathlib import Path

import numpy as np
from sheet import SCHEMES, Scheme, figure_of, save_svg

sys.path.append(str(Path(__file__).parents[2] / "examples"))

import ppo
import ppo_options
import ppo_report
from matplotlib.ticker import EngFormatter

SEEDS = range(3)
SHOWN = 150_000  # steps; the rest of the run is flat


def draw(folder: Path) -> list[Path]:
    """Train once for each seed, and draw returns over steps in both schemes."""
    results = list[ppo.Result]()
    for seed in SEEDS:
        options, _ = ppo_options.parse(["--seed", str(seed), "--no-video"])
        results.append(ppo.run(ppo.PPO(options)))
    return [_draw(folder, scheme, results) for scheme in SCHEMES]


def _draw(folder: Path, scheme: Scheme, results: list[ppo.Result]) -> Path:
    figure = figure_of(700, 350)
    axes = figure.add_axes((0.085, 0.14, 0.895, 0.80))
    axes.patch.set_alpha(0)
    for seed, result, fill in zip(SEEDS, results, scheme.strong, strict=False):
        steps, returns = result.curves[0]
        axes.plot(steps, returns, color=fill, alpha=0.4, linewidth=0.8)
        score = f"{np.mean(result.after):.0f} ± {np.std(result.after):.0f}"
        after = f"seed {seed}: {score} after {steps[-1] / 1000:.0f}k steps"
        smooth = ppo_report._smooth(returns)
        axes.plot(steps, smooth, color=fill, linewidth=1.8, label=after)
    axes.axhline(475, color=scheme.faint, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    axes.text(0, 471, "475: solved", color=scheme.faint, fontsize=9, va="top")
    axes.set_xlabel("environment steps, of 64 environments together", color=scheme.ink, fontsize=9)
    axes.set_ylabel("return of an episode", color=scheme.ink, fontsize=9)
    axes.set_ylim(0, 515)
    axes.set_xlim(-2_000, SHOWN)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.tick_params(colors=scheme.ink, labelsize=9, length=0)
    axes.grid(color=scheme.faint, alpha=0.25, linewidth=0.6)
    axes.spines[:].set_visible(False)
    axes.legend(frameon=False, labelcolor=scheme.ink, fontsize=9, loc="lower right")
    return save_svg(figure, folder, "learning-curve", scheme)
