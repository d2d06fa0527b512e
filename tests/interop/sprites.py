# pyright: basic
"""Sprites for JAXtari: rectangles, which take the place of the files that it installs."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

BACKGROUND = (210, 160)
SPRITE = (8, 8)


def rectangle(path: Path) -> np.ndarray:
    """An image of one colour, by the name of the file: of the whole screen, or of a sprite."""
    of_screen = any(word in path.stem.lower() for word in ("background", "bg", "level"))
    height, width = BACKGROUND if of_screen else SPRITE
    colour = zlib.crc32(path.stem.encode()).to_bytes(4, "big")[:3]
    return np.tile(np.array([*colour, 255], np.uint8), (height, width, 1))


@contextmanager
def installed_sprites(home: Path) -> Iterator[None]:
    """Have JAXtari find a rectangle for each sprite that it looks for, in a directory `home`."""
    sprites = home / "jaxtari/sprites"
    sprites.mkdir(parents=True, exist_ok=True)
    (sprites / ".version").write_text("1")
    (home / "jaxtari/.alternative_sprites_installed").touch()

    def making(load: Callable[..., Any]) -> Callable[..., Any]:
        def made(path: Any, *args: Any, **keywords: Any) -> Any:
            file = Path(path)
            if sprites in file.parents and not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                np.save(file, rectangle(file))
            return load(path, *args, **keywords)

        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(home))
        patch.setattr(np, "load", making(np.load))
        patch.setattr(jnp, "load", making(jnp.load))
        yield
