# pyright: basic
"""Images of JaxMARL's games, as JaxMARL draws them, on the host."""

import contextlib
import copy
import importlib
import io
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

Draw = Callable[[Any, Any], np.ndarray]


def drawer(peer: Any) -> Draw | None:
    """The function that draws an environment and its state; None where JaxMARL cannot draw."""
    return next((_DRAWN[x.__name__] for x in type(peer).__mro__ if x.__name__ in _DRAWN), None)


def _particles(peer: Any, inner: Any) -> np.ndarray:
    colours = peer.colour
    peer = copy.copy(peer)
    # The push game lists the numbers of its last colours, from 0 to 1, in place of the colours.
    parts = [255 * x for x in colours if np.ndim(x) == 0]
    peer.colour = [x for x in colours if np.ndim(x)] + [*np.reshape(parts, (-1, 3))]
    with contextlib.redirect_stdout(io.StringIO()):  # it prints whether agents talk
        drawn = _module("jaxmarl.environments.mpe.mpe_visualizer").MPEVisualizer(peer, [inner])
    return _image(drawn.fig)


def _tiles(peer: Any, inner: Any) -> np.ndarray:
    drawn = copy.copy(peer)
    drawn.render_time = partial(_clock, peer)  # JaxMARL's own fails on NumPy 2 after the first step
    return np.asarray(drawn.render(inner), np.uint8)


def _clock(peer: Any, inner: Any, width: int, height: int = 32) -> np.ndarray:
    """Two bars: the steps of this round, and the rounds so far."""
    bars = np.zeros((2, height, width, 3), np.uint8)
    times = (inner.step, peer.num_inner_steps), (inner.outer_t, peer.num_outer_steps)
    for bar, (now, of) in zip(bars, times, strict=True):
        bar[:, : int(now) * (width // of)] = 255
    return bars.reshape(2 * height, width, 3)


def _kitchen(peer: Any, inner: Any) -> np.ndarray:
    visualizer = _module("jaxmarl.viz.overcooked_visualizer").OvercookedVisualizer
    edge = peer.agent_view_size - 2
    grid = np.asarray(inner.maze_map[edge:-edge, edge:-edge, :])
    agents = dict(agent_dir_idx=inner.agent_dir_idx, agent_inv=inner.agent_inv)
    return np.asarray(visualizer._render_grid(grid, highlight_mask=None, **agents), np.uint8)


def _kitchen_2(peer: Any, inner: Any) -> np.ndarray:
    visualizer = _module("jaxmarl.viz.overcooked_v2_visualizer").OvercookedV2Visualizer()
    return np.asarray(visualizer._render_state(inner), np.uint8)


def _map(peer: Any, inner: Any) -> np.ndarray:
    fig, ax = _module("matplotlib.pyplot").subplots(figsize=(5, 5))
    peer.init_render(ax, inner, lidar=False, ticks_off=True)
    return _image(fig)


def _battle(peer: Any, inner: Any) -> np.ndarray:
    inner = getattr(inner, "state", inner)
    fig, ax = _module("matplotlib.pyplot").subplots(figsize=(5, 5))
    peer = getattr(peer, "_env", peer)
    actions = dict(zip(peer.agents, inner.prev_attack_actions, strict=True))
    peer.init_render(ax, (None, inner, actions), 0, int(inner.step)).remove()  # a copy on top
    ax.set(xlim=(0, peer.map_width), ylim=(0, peer.map_height), aspect="equal")
    return _image(fig)


def _image(fig: Any) -> np.ndarray:
    canvas = _module("matplotlib.backends.backend_agg").FigureCanvasAgg(fig)
    canvas.draw()
    _module("matplotlib.pyplot").close(fig)
    return np.array(canvas.buffer_rgba())[..., :3]


def _module(name: str) -> Any:
    return importlib.import_module(name)  # on first use: drawing is slow to import


_DRAWN: dict[str, Draw] = {
    "SimpleMPE": _particles,
    "InTheGrid": _tiles,
    "InTheGrid_2p": _tiles,
    "InTheMatrix": _tiles,
    "Overcooked": _kitchen,
    "OvercookedV2": _kitchen_2,
    "JaxNav": _map,
    "SMAX": _battle,
    "EnemySMAX": _battle,
}
