"""Episodes of `envrax.classic` as GIFs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import controllers
import jax
import numpy as np
from PIL import Image

import envrax
from envrax import classic

HEIGHT, COLOURS = 256, 64


@dataclass(frozen=True)
class Scene:
    """
    What a GIF shows.

    Attributes
    ----------
    env : str
        Registered name.
    policy : callable
        From a state to an action.
    milliseconds : int
        How long a frame stands.
    seeds : tuple of int, default (0,)
        One for each episode.
    config : EnvConfig, optional
        In place of the default.
    first, last : int
        The steps that are shown, of each episode.
    every : int, default 1
        Steps from frame to frame.
    hold : int, default 600
        Milliseconds that the last frame of an episode stands.
    """

    env: str
    policy: Callable[[Any], Any]
    milliseconds: int
    seeds: tuple[int, ...] = (0,)
    config: envrax.EnvConfig | None = None
    first: int = 0
    last: int = 1000
    every: int = 1
    hold: int = 600


SCENES = {
    # From the second round on the cart repeats itself, so that the loop has no seam.
    "cartpole": Scene(
        "classic/CartPole-v0",
        controllers.cart_pole,
        milliseconds=40,
        first=controllers.CART_PERIOD,
        last=2 * controllers.CART_PERIOD - 2,
        every=2,
        hold=40,
    ),
    "mountain-car": Scene("classic/MountainCar-v0", controllers.mountain_car, milliseconds=30),
    "pendulum": Scene("classic/Pendulum-v0", controllers.pendulum, milliseconds=50, last=90),
    # Half the usual time step, which jumps too far between two frames.
    "acrobot": Scene(
        "classic/Acrobot-v0",
        controllers.acrobot,
        milliseconds=30,
        config=classic.AcrobotConfig(dt=0.1),
    ),
    "catch": Scene("classic/Catch-v0", controllers.catch, milliseconds=90, seeds=(6, 21, 3, 4)),
    "ball": Scene("classic/Ball-v0", controllers.ball, milliseconds=80, seeds=(0, 8, 7)),
    "maze": Scene("classic/Maze-v0", controllers.maze, milliseconds=80, seeds=(6,)),
    "connect-four": Scene(
        "classic/ConnectFour-v0",
        controllers.connect_four,
        milliseconds=400,
        seeds=(41, 68),
        hold=1500,
    ),
}


def draw(name: str, folder: Path) -> list[Path]:
    """Save the scene of that name, and say where."""
    scene = SCENES[name]
    images, durations = list[Image.Image](), list[int]()
    for episode in episodes(scene):
        images += [Image.fromarray(frame) for frame in episode]
        durations += [scene.milliseconds] * (len(episode) - 1) + [scene.hold]
    path = folder / f"env-{name}.gif"
    save_gif(path, images, durations)
    return [path]


def episodes(scene: Scene) -> Iterator[list[np.ndarray]]:
    """The frames of each episode."""
    env = envrax.make(scene.env, config=scene.config, cache_dir=None)
    for seed in scene.seeds:
        _, state = env.reset(jax.random.key(seed))
        frames = list[np.ndarray]()
        while True:
            if state.step >= scene.first and (state.step - scene.first) % scene.every == 0:
                frames.append(env.render(state))
            if state.done or state.step >= scene.last:
                break
            _, state, *_ = env.step(state, scene.policy(state))
        yield frames


def save_gif(path: Path, images: list[Image.Image], durations: list[int]) -> None:
    """
    Write frames as an endless loop.

    One palette for all of them and no dithering: what does not move stays the same, and takes no
    space.
    """
    width = round(images[0].width * HEIGHT / images[0].height)
    images = [image.resize((width, HEIGHT), Image.Resampling.LANCZOS) for image in images]
    some = images[:: max(1, len(images) // 16)]
    sheet = Image.new("RGB", (width, HEIGHT * len(some)))
    for i, image in enumerate(some):
        sheet.paste(image, (0, i * HEIGHT))
    palette = sheet.quantize(COLOURS, method=Image.Quantize.FASTOCTREE)
    first, *rest = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    first.save(path, save_all=True, append_images=rest, duration=durations, loop=0, optimize=False)
