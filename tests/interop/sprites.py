# pyright: basic
"""Rectangles in the place of JAXtari's sprites for all games, as if the library had them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

import numpy as np
import pytest

from envrax.interop import jaxtari

ROOMS = "venture/map*", "venture/room*"
SIZES = {**dict.fromkeys(ROOMS, jaxtari.SCREEN), "montezuma*/backgrounds/*": jaxtari.SCREEN}
COLOURS = {
    **dict.fromkeys(ROOMS, (0, 0, 0)),  # where one can walk
    "miniature_golf/level_*": (210, 210, 64),  # walls
}


def rectangle(file: PurePath) -> np.ndarray:
    """Also for the games whose rules read sprites, which the option refuses."""
    image = jaxtari.rectangle(file)
    if file.match("miniature_golf/level_*"):
        image[16:-16, 16:-16] = 0  # the course within the walls
    return image


@contextmanager
def installed_sprites(home: Path) -> Iterator[None]:
    """Have JAXtari find a rectangle for each sprite that it looks for, in a directory `home`."""
    (home / "jaxtari").mkdir(parents=True, exist_ok=True)
    (home / "jaxtari/.alternative_sprites_installed").touch()
    with (
        pytest.MonkeyPatch.context() as patch,
        jaxtari.rectangles(home / "jaxtari/sprites", rectangle),
    ):
        patch.setenv("XDG_DATA_HOME", str(home))
        patch.setattr(jaxtari, "SIZES", SIZES | jaxtari.SIZES)
        patch.setattr(jaxtari, "COLOURS", COLOURS | jaxtari.COLOURS)
        yield
