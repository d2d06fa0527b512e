# pyright: basic, reportMissingImports=false
"""Rectangles in the place of JAXtari's sprites: `options={"sprites": "rectangles"}`."""

import os
import threading
import zlib
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePath
from typing import Any

import jax.numpy as jnp
import numpy as np

RULES_READ_SPRITES = {
    *("alien", "asterix", "bankheist", "gravitar", "hauntedhouse", "miniaturegolf"),
    *("montezumarevenge", "tron", "venture"),
}
"""Games whose rules take walls or sizes from sprites: with rectangles, they are other games."""

SCREEN = (210, 160)
SPRITE = (8, 8)
SIZES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("word*/bg/*", "seaquest/bg/*"), SCREEN),
    **dict.fromkeys(("qbert/freeze*", "qbert/win_animation/*"), SCREEN),
    "enduro/misc/flags*": (2, *SPRITE),
    "enduro/digits/*_array*": (128, 8),  # a drum of digits
    "videochess/background*": SCREEN[::-1],
    "wizardofwor/background*": (86, 128),
}
"""Heights and widths that are not those of `rectangle`, by patterns of the path."""
COLOURS: dict[str, tuple[int, ...]] = {"gopher/*_dug*": (223, 183, 85)}
"""Colours that a game looks up, by patterns of the path."""
LISTED = ("up_n_down/roads/road.npy", "up_n_down/background/background.npy")
"""Files in directories that a game lists."""

_LOCK = threading.RLock()


def rectangle(file: PurePath) -> np.ndarray:
    """An image of one colour, by the path of its file: of the whole screen, or of a sprite."""
    of_screen = any(word in file.stem.lower() for word in ("background", "bg", "level"))
    size = _first_match(file, SIZES, SCREEN if of_screen else SPRITE)
    by_name = tuple(zlib.crc32(file.stem.encode()).to_bytes(4, "big")[:3])
    colour = _first_match(file, COLOURS, by_name)
    return np.tile(np.array([*colour, 255], np.uint8), (*size, 1))


def _first_match(
    file: PurePath, choices: dict[str, tuple[int, ...]], default: tuple[int, ...]
) -> tuple[int, ...]:
    """The value of the first pattern that the path matches."""
    return next((value for pattern, value in choices.items() if file.match(pattern)), default)


@contextmanager
def rectangles(
    sprites: Path, draw: Callable[[PurePath], np.ndarray] = rectangle
) -> Generator[None]:
    """
    Have this thread read a rectangle from each file in a directory `sprites`, which need not exist.

    JAXtari reads its sprites while it builds a game, with the functions that are replaced here for
    as long. They do what they did for all other files, and for other threads.
    """
    thread = threading.get_ident()

    def place(path: Any) -> PurePath | None:
        """Where a path lies in the directory, if it is one of a sprite there."""
        is_path = isinstance(path, str | Path) and threading.get_ident() == thread
        if is_path and Path(path).is_relative_to(sprites):
            return Path(path).relative_to(sprites)
        return None

    def load(path: Any, *args: Any, **keywords: Any) -> Any:
        at = place(path)
        return np_load(path, *args, **keywords) if at is None else draw(at)

    def load_jax(path: Any, *args: Any, **keywords: Any) -> Any:
        at = place(path)
        return jnp_load(path, *args, **keywords) if at is None else jnp.asarray(draw(at))

    def exists(path: Any) -> bool:
        at = place(path)
        return path_exists(path) if at is None else at.suffix == ".npy"

    def listdir(path: Any = ".") -> list[Any]:
        at = place(path)
        if at is None:
            return list_directory(path)
        return [file.name for file in map(PurePath, LISTED) if file.parent == at]

    with _LOCK, ExitStack() as stack:
        np_load, jnp_load = np.load, jnp.load
        path_exists, list_directory = os.path.exists, os.listdir
        for module, name, function in (
            (np, "load", load),
            (jnp, "load", load_jax),
            (os.path, "exists", exists),
            (os, "listdir", listdir),
        ):
            stack.enter_context(replaced(module, name, function))
        yield


@contextmanager
def replaced(module: Any, name: str, function: Any) -> Generator[None]:
    """Another function under a name of a module, for a while."""
    before = getattr(module, name)
    setattr(module, name, function)
    try:
        yield
    finally:
        setattr(module, name, before)
