"""The output of `ppo.py`: a picture of the learning curve, and a video of the policy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

import envrax

BLUE, CORAL, GREY = "#2f6fb5", "#e2614b", "#8a93a0"
LONGEST_VIDEO = 30  # seconds
SMALLEST_FRAME = 240  # pixels of a side: smaller ones are enlarged


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
        The PNG file; its folder is created.
    title : str
        The title of the picture.
    curve : tuple of np.ndarray
        Steps, and the mean return of the training episodes that ended since the previous entry.
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
        mean, std = evaluation.mean(), evaluation.std().round(3)  # equal returns: 0, not 1e-8
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


class Enlarged(envrax.Wrapper[Any, Any, Any, Any]):
    """Draw small images larger: some libraries draw 8 pixels for a tile."""

    def render(self, state: Any) -> np.ndarray:
        frame = super().render(state)
        factor = -(-SMALLEST_FRAME // min(frame.shape[:2]))
        return frame.repeat(factor, axis=0).repeat(factor, axis=1)


def save_video(
    folder: Path, env: Any, policy: Callable[[Any, Any, Any], Any], fps: int, seed: int
) -> None:
    """
    Record one episode with `RecordVideo`, or its first 30 seconds, if it can be drawn.

    Parameters
    ----------
    folder : Path
        The folder of the MP4; existing files are kept.
    env : JaxEnv
        The environment.
    policy : callable
        From an observation, the mask of the legal actions and a key to an action.
    fps : int
        Frames per second.
    seed : int
        Chooses the episode.
    """
    env = envrax.JitWrapper(Enlarged(env), pre_warm=False)
    obs, state = env.reset(jax.random.key(seed))
    try:
        env.render(state)
    except Exception as error:  # a library may need a screen, or another package
        print(f"no video, since {env.name} cannot be drawn here: {error}")
        return
    with envrax.RecordVideo(env, folder, fps) as record:
        obs, state = record.reset(jax.random.key(seed))
        for key in jax.random.split(jax.random.key(seed + 1), LONGEST_VIDEO * fps):
            if state.done:
                break
            action = policy(obs, record.action_mask(state), key)
            obs, state, *_ = record.step(state, action)


def _smooth(returns: np.ndarray, weight: float = 0.4) -> list[float]:
    """An exponential moving average, not biased towards where it starts."""
    smooth, total = list[float](), 0.0
    mean = 0.0
    for value in returns:
        total = (1 - weight) * total + weight
        mean += weight / total * (value - mean)
        smooth.append(mean)
    return smooth
