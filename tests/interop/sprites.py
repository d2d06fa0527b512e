# pyright: basic
"""Sprites for JAXtari: rectangles, which take the place of the files that it installs."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

BACKGROUND = (210, 160)
SPRITE = (8, 8)
ROOMS = "venture/map*", "venture/room*"
SIZES = {
    **dict.fromkeys(ROOMS, BACKGROUND),
    **dict.fromkeys(("montezuma*/backgrounds/*", "word*/bg/*"), BACKGROUND),
    **dict.fromkeys(("qbert/freeze*", "qbert/win_animation/*"), BACKGROUND),
    "enduro/misc/flags*": (2, *SPRITE),
    "enduro/digits/*_array*": (128, 8),  # a drum of digits
    "videochess/background*": BACKGROUND[::-1],
    "wizardofwor/background*": (86, 128),
}
COLOURS = {
    **dict.fromkeys(ROOMS, (0, 0, 0)),  # where one can walk
    "gopher/*": (223, 183, 85),
    "miniature_golf/level_*": (210, 210, 64),  # walls
}
LISTED = ("up_n_down/roads/road.npy", "up_n_down/background/background.npy")
"""Files in directories that a game lists."""


def rectangle(file: PurePath) -> np.ndarray:
    """An image of one colour, by the path of its file: of the whole screen, or of a sprite."""
    of_screen = any(word in file.stem.lower() for word in ("background", "bg", "level"))
    size = _first_match(file, SIZES, BACKGROUND if of_screen else SPRITE)
    colour = _first_match(
        file, COLOURS, tuple(zlib.crc32(file.stem.encode()).to_bytes(4, "big")[:3])
    )
    image = np.tile(np.array([*colour, 255], np.uint8), (*size, 1))
    if file.match("miniature_golf/level_*"):
        image[16:-16, 16:-16] = 0  # the course within the walls
    return image


def _first_match(
    file: PurePath, choices: dict[str, tuple[int, ...]], default: tuple[int, ...]
) -> Any:
    """The value of the first pattern that the path matches."""
    return next((value for pattern, value in choices.items() if file.match(pattern)), default)


@contextmanager
def installed_sprites(home: Path) -> Iterator[None]:
    """Have JAXtari find a rectangle for each sprite that it looks for, in a directory `home`."""
    sprites = home / "jaxtari/sprites"
    sprites.mkdir(parents=True, exist_ok=True)
    (sprites / ".version").write_text("1")
    (home / "jaxtari/.alternative_sprites_installed").touch()

    def save_rectangle(file: Path) -> None:
        if file.suffix == ".npy" and sprites in file.parents and not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            np.save(file, rectangle(file.relative_to(sprites)))

    def making(read: Callable[..., Any]) -> Callable[..., Any]:
        def made(path: Any, *args: Any, **keywords: Any) -> Any:
            if isinstance(path, str | Path):
                save_rectangle(Path(path))
            return read(path, *args, **keywords)

        return made

    for name in LISTED:
        save_rectangle(sprites / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(home))
        for module, name in ((np, "load"), (jnp, "load"), (os.path, "exists")):
            patch.setattr(module, name, making(getattr(module, name)))
        yield
