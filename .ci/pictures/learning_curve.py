"""CartPole's learning curve under `examples/ppo.py`, in two colour schemes."""

import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

sys.path.append(str(Path(__file__).parents[2] / "examples"))

import ppo
from matplotlib.ticker import EngFormatter

SEEDS = range(3)


@dataclass(frozen=True)
class Scheme:
    """Colours for one of mkdocs-material's schemes: of text, of what stands back, of each seed."""

    name: str
    ink: str
    faint: str
    seeds: tuple[str, str, str]


SCHEMES = (
    Scheme("light", "#1f2430", "#6b7280", ("#2f6fb5", "#e2614b", "#1a9c81")),
    Scheme("dark", "#e6e8ee", "#a3a9b8", ("#6ea8ec", "#f28a76", "#3fc6a8")),
)


def draw(folder: Path) -> list[Path]:
    """Train once for each seed, and draw returns over steps in both schemes."""
    results = list[tuple[np.ndarray, np.ndarray]]()
    for seed in SEEDS:
        # A lower lambda learns as soon, and does not forget on the way.
        options = {**ppo.PRESETS[ppo.Options.env], "gae_lambda": 0.95}
        _, curve, _, after = ppo.run(ppo.PPO(ppo.Options(seed=seed, **options)))
        results.append((curve, after))
    return [_draw(folder, scheme, results) for scheme in SCHEMES]


def _draw(folder: Path, scheme: Scheme, results: list[tuple[np.ndarray, np.ndarray]]) -> Path:
    figure = Figure(figsize=(700 / 96, 350 / 96), dpi=96)
    figure.patch.set_alpha(0)
    axes = figure.add_axes((0.085, 0.14, 0.895, 0.80))
    axes.patch.set_alpha(0)
    for seed, result, fill in zip(SEEDS, results, scheme.seeds, strict=True):
        (steps, returns), evaluated = result
        axes.plot(steps, returns, color=fill, alpha=0.4, linewidth=0.8)
        score = f"{np.mean(evaluated):.0f} ± {np.std(evaluated):.0f}"
        after = f"seed {seed}: {score} at the end"
        smooth = np.convolve(np.pad(returns, 2, "edge"), np.full(5, 0.2), "valid")
        axes.plot(steps, smooth, color=fill, linewidth=1.8, label=after)
    axes.axhline(475, color=scheme.faint, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    end = results[0][0][0][-1]
    axes.text(end, 471, "475: solved", color=scheme.faint, fontsize=9, ha="right", va="top")
    axes.set_xlabel("environment steps, of 64 environments together", color=scheme.ink, fontsize=9)
    axes.set_ylabel("return of an episode", color=scheme.ink, fontsize=9)
    axes.set_ylim(0, 515)
    axes.set_xlim(-4_000, end)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.tick_params(colors=scheme.ink, labelsize=9, length=0)
    axes.grid(color=scheme.faint, alpha=0.25, linewidth=0.6)
    axes.spines[:].set_visible(False)
    axes.legend(frameon=False, labelcolor=scheme.ink, fontsize=9, loc="lower right")
    path = folder / f"learning-curve-{scheme.name}.svg"
    # No date and no random ids: equal drawings are equal files.
    with mpl.rc_context({"svg.hashsalt": "envrax"}):
        figure.savefig(path, metadata={"Date": None})
    return path
