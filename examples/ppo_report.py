"""The output of `ppo.py`: a picture of the learning curve, and a video of the policy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import Normal, Stroke
from matplotlib.ticker import EngFormatter

import envrax

BLUE, CORAL, GREY, INK = "#2f6fb5", "#e2614b", "#8a93a0", "#1f2933"
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


def save_heat_maps(
    path: Path,
    title: str,
    maps: dict[str, np.ndarray],
    axes: dict[str, list[float]],
    default: list[float],
    within: float,
) -> None:
    """
    Draw returns over a grid of two fields, side by side on one scale.

    Parameters
    ----------
    path : Path
        The PNG file; its folder is created.
    title : str
        The title of the picture.
    maps : dict
        From the title of a panel to its values, of shape (second axis, first axis).
    axes : dict
        From the labels of the horizontal and of the vertical axis to the values along them.
    default : list of float
        Where the default is.
    within : float
        By which factor the training drew around it.
    """
    (across, xs), (up, ys) = axes.items()
    figure = Figure(figsize=(9.6, 4.9), dpi=150, layout="constrained")
    figure.text(0.01, 0.955, title, fontweight="bold", size=12)
    panels = figure.subplots(1, len(maps), sharey=True, squeeze=False)[0]
    most = max(values.max() for values in maps.values())
    # Cells lie side by side, while their values grow by factors.
    pairs = zip(default, (xs, ys), strict=True)
    at = [float(np.interp(np.log(x), np.log(v), range(len(v)))) for x, v in pairs]
    for panel, (name, values) in zip(panels, maps.items(), strict=True):
        panel.imshow(values, origin="lower", cmap="viridis", vmin=0, vmax=most)
        for (row, column), value in np.ndenumerate(values):
            colour = "white" if value < 0.6 * most else "black"
            panel.text(column, row, f"{value:.0f}", ha="center", va="center", color=colour, size=8)
        panel.set_title(f"{name}: {values.mean():.0f} on average", loc="left", size=10)
        panel.set_xlabel(across)
        panel.set_xticks(range(len(xs)), [f"{x:.3g}" for x in xs])
        panel.set_yticks(range(len(ys)), [f"{y:.3g}" for y in ys])
        panel.tick_params(length=0)
        panel.spines[:].set_visible(False)
        for label, colour, reach in (
            (f"drawn in training: up to {within:g} times the default", INK, within),
            ("the default", CORAL, 1.0),
        ):
            half = [np.log(reach) / np.log(v[1] / v[0]) + 0.5 for v in (xs, ys)]
            corner = at[0] - half[0], at[1] - half[1]
            outline = [Stroke(linewidth=5, foreground="white"), Normal()]
            kwargs: Any = {"fill": False, "color": colour, "lw": 2.5, "path_effects": outline}
            panel.add_patch(Rectangle(corner, 2 * half[0], 2 * half[1], label=label, **kwargs))
    panels[0].set_ylabel(up)
    figure.colorbar(panels[0].images[0], ax=list(panels), label="return of an episode", pad=0.01)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=2, frameon=False, fontsize=9)
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
