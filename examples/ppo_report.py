"""What `ppo.py` leaves behind: a picture of the learning curve, and a video of the policy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

import envrax

BLUE, CORAL, GREY = "#2f6fb5", "#e2614b", "#8a93a0"


def save_curve(
    path: Path,
    title: str,
    curve: tuple[np.ndarray, np.ndarray],
    before: np.ndarray,
    after: np.ndarray,
) -> None:
    """
    Draw returns over steps.

    Parameters
    ----------
    path : Path
        The PNG file; its folder is made.
    title : str
        Stands above the picture.
    curve : tuple of np.ndarray
        Steps, and the mean return of the episodes that ended since the last of them.
    before, after : np.ndarray
        Returns of the evaluations at either end of training.
    """
    steps, returns = curve
    figure = Figure(figsize=(7, 4), dpi=150, layout="constrained")
    axes = figure.subplots()
    axes.plot(steps, returns, color=BLUE, alpha=0.3, linewidth=1)
    axes.plot(steps, _smooth(returns), color=BLUE, linewidth=2, label="training, while exploring")
    ends = ("before", 0, before, GREY), ("after", steps.max(initial=0), after, CORAL)
    for name, step, evaluation, colour in ends:
        mean, std = evaluation.mean(), evaluation.std()
        label = f"{name}: {mean:.4g} ± {std:.3g}"
        axes.errorbar(step, mean, std, color=colour, fmt="o", capsize=4, zorder=3, label=label)
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_xlabel("environment steps")
    axes.set_ylabel("return of an episode")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(color=GREY, alpha=0.2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def save_video(
    folder: Path, name: str, wrappers: list[Any], policy: Callable[[Any], Any], fps: int, seed: int
) -> None:
    """
    Record one episode with `RecordVideo`.

    Parameters
    ----------
    folder : Path
        Where the MP4 goes; those that are there are kept.
    name, wrappers
        The environment, as `envrax.make` takes it.
    policy : callable
        From an observation to an action.
    fps : int
        Frames per second.
    seed : int
        Chooses the episode.
    """
    record = envrax.RecordVideo(output_dir=folder, fps=fps)
    env = envrax.make(name, wrappers=[*wrappers, record], pre_warm=False)
    obs, state = env.reset(jax.random.key(seed))
    while not state.done:
        obs, state, *_ = env.step(state, policy(obs))


def _smooth(returns: np.ndarray, weight: float = 0.4) -> list[float]:
    """An exponential moving average, not biased towards where it starts."""
    smooth, total = list[float](), 0.0
    mean = 0.0
    for value in returns:
        total = (1 - weight) * total + weight
        mean += weight / total * (value - mean)
        smooth.append(mean)
    return smooth
