# pyright: basic
"""Rectangles in the place of JAXtari's sprites for all games, as if the library had them."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pytest

ROOMS = "venture/map*", "venture/room*"
COLOURS = {
    **dict.fromkeys(ROOMS, (0, 0, 0)),  # where one can walk
    "miniature_golf/level_*": (210, 210, 64),  # walls
}


@contextmanager
def installed_sprites(home: Path) -> Iterator[None]:
    """Have JAXtari find a rectangle for each sprite that it looks for, in a directory `home`."""
    jaxtari: Any = importlib.import_module("envrax.interop.jaxtari")
    screens = dict.fromkeys((*ROOMS, "montezuma*/backgrounds/*"), jaxtari.SCREEN)

    def rectangle(file: PurePath) -> np.ndarray:
        """Also for the games whose rules read sprites, which the option refuses."""
        image = original(file)
        if file.match("miniature_golf/level_*"):
            image[16:-16, 16:-16] = 0  # the course within the walls
        return image

    original = jaxtari.rectangle
    (home / "jaxtari").mkdir(parents=True, exist_ok=True)
    (home / "jaxtari/.alternative_sprites_installed").touch()
    with (
        pytest.MonkeyPatch.context() as patch,
        jaxtari.rectangles(home / "jaxtari/sprites", rectangle),
    ):
        patch.setenv("XDG_DATA_HOME", str(home))
        patch.setattr(jaxtari, "SIZES", screens | jaxtari.SIZES)
        patch.setattr(jaxtari, "COLOURS", COLOURS | jaxtari.COLOURS)
        yield
