"""CartPole's learning curve under `examples/ppo.py`."""

import sys
from pathlib import Path

import numpy as np
from sheet import SCHEMES, Scheme, figure_of, save_svg

sys.path.append(str(Path(__file__).parents[2] / "examples"))

import ppo
from matplotlib.ticker import EngFormatter

SEEDS = range(3)
SHOWN = 150_000  # steps; the rest of the run is flat


def draw(folder: Path) -> list[Path]:
    """Train once for each seed, and draw returns over steps in both schemes."""
    results = list[tuple[np.ndarray, np.ndarray]]()
    for seed in SEEDS:
        preset = ppo.PRESETS[ppo.Options.env]
        _, curve, _, after = ppo.run(ppo.PPO(ppo.Options(seed=seed, **preset)))
        results.append((curve, after))
    return [_draw(folder, scheme, results) for scheme in SCHEMES]


def _draw(folder: Path, scheme: Scheme, results: list[tuple[np.ndarray, np.ndarray]]) -> Path:
    figure = figure_of(700, 350)
    axes = figure.add_axes((0.085, 0.14, 0.895, 0.80))
    axes.patch.set_alpha(0)
    for seed, result, fill in zip(SEEDS, results, scheme.strong, strict=False):
        (steps, returns), evaluated = result
        axes.plot(steps, returns, color=fill, alpha=0.4, linewidth=0.8)
        score = f"{np.mean(evaluated):.0f} ± {np.std(evaluated):.0f}"
        after = f"seed {seed}: {score} after {steps[-1] / 1000:.0f}k steps"
        smooth = np.convolve(np.pad(returns, 2, "edge"), np.full(5, 0.2), "valid")
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
