"""`save_video` and `tile_frames`: a sequence of frames as a file, or as one picture."""

import itertools
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envrax._checks.counts import require_count
from envrax._checks.files import temporary_path
from envrax.video.encoder import VideoWriter, require_fps, require_image
from envrax.video.ffmpeg import find_ffmpeg

MAX_GIF_FPS = 50  # viewers slow down faster GIFs


def save_video(
    path: str | os.PathLike[str], frames: Iterable[np.ndarray] | np.ndarray, fps: float = 30
) -> None:
    """
    Write frames to an MP4 or a GIF file.

    The file gets its name when it is complete, and replaces a file of that name, whose permissions
    are kept. Frames are encoded one by one, so an iterator of any length fits into memory.

    Parameters
    ----------
    path : path-like
        The file, which ends in `.mp4` or `.gif`. `~` is the home directory. Missing folders are
        made.
    frames : iterable of np.ndarray, or np.ndarray
        uint8 images of shape (H, W, 3), all of one size, or one array of shape (T, H, W, 3).
    fps : float, default 30
        Frames per second; at most 50 in a GIF, whose unit of time is a hundredth of a second.

    Raises
    ------
    ValueError
        If the name has another suffix; if there are no frames; if a frame is not such an image, or
        has another size than the first; if `fps` is not above 0 and finite, or above 50 for a GIF.
    TypeError
        If `fps` is not a number.
    FileExistsError
        If the path is that of a folder, a pipe, a device or a read-only file.
    MissingPackageError
        If the packages of the extra `video` are not installed.
    RuntimeError
        If ffmpeg fails.

    Examples
    --------
    >>> import numpy as np
    >>> frames = np.zeros((10, 64, 64, 3), np.uint8)
    >>> save_video("black.gif", frames, fps=10)  # doctest: +SKIP
    """
    # Absolute, because ffmpeg reads a leading "-" as an option.
    path = Path(path).expanduser().absolute()
    if path.suffix.lower() not in (".mp4", ".gif"):
        raise ValueError(
            f"save_video: expected a path that ends in .mp4 or .gif; got {str(path)!r}."
        )
    require_fps("save_video", fps)
    if path.suffix.lower() == ".gif" and fps > MAX_GIF_FPS:
        raise ValueError(
            f"save_video: expected fps up to {MAX_GIF_FPS} for a GIF; got {fps}. Write an "
            "MP4, or leave out frames: `frames[::2]`."
        )
    find_ffmpeg("save_video")
    images = (np.asarray(frame) for frame in frames)
    first = next(images, None)
    if first is None:
        raise ValueError("save_video: expected at least one frame; got none.")
    require_image("save_video: expected", first)
    form = path.suffix.lower()[1:]
    path = path.resolve()  # a link to a file, perhaps with another suffix
    part = temporary_path("save_video", path)
    VideoWriter("save_video", path, part, fps, first, form).complete(images)


def tile_frames(
    frames: Iterable[np.ndarray] | np.ndarray,
    rows: int | None = None,
    cols: int | None = None,
    gap: int = 0,
    labels: Sequence[Any] | None = None,
) -> np.ndarray:
    """
    Put frames of one size side by side into one picture, row by row.

    Places without a frame are black. With a gap, they are grey, as is the gap.

    Parameters
    ----------
    frames : iterable of np.ndarray, or np.ndarray
        Images of shape (H, W, C), or one array of shape (K, H, W, C).
    rows, cols : int, optional
        Size of the grid. One of them determines the other. Default: about square.
    gap : int, default 0
        Pixels between two frames.
    labels : sequence, optional
        Texts or numbers to write into the upper left corner of each frame. The frames must then be
        uint8 of shape (H, W, 3).

    Returns
    -------
    np.ndarray
        One image of shape (rows * (H + gap) - gap, cols * (W + gap) - gap, C).

    Raises
    ------
    ValueError
        If there are no frames, they differ in shape or dtype, there are more than the grid holds,
        or the number of labels differs from that of frames.
    MissingPackageError
        If there are labels, and the packages of the extra `video` are not installed.

    Examples
    --------
    >>> import numpy as np
    >>> tile_frames(np.zeros((5, 10, 20, 3), np.uint8), cols=3).shape
    (20, 60, 3)
    """
    images = [np.array(frame) for frame in frames]  # an iterator may draw on the same array
    kinds = list(dict.fromkeys((image.shape, str(image.dtype)) for image in images))
    if len(kinds) != 1 or len(kinds[0][0]) != 3:
        got = " and ".join(f"{shape} {dtype}" for shape, dtype in kinds) or "none"
        raise ValueError(f"tile_frames: expected frames of one shape (H, W, C); got {got}.")
    if rows is not None:
        rows = require_count("tile_frames: expected rows", rows)
    if cols is None:
        cols = -(-len(images) // rows) if rows else math.ceil(math.sqrt(len(images)))
    cols = require_count("tile_frames: expected cols", cols)
    rows = rows or -(-len(images) // cols)
    if len(images) > rows * cols:
        raise ValueError(
            f"tile_frames: expected up to {rows * cols} frames for {rows} rows and {cols} columns; "
            f"got {len(images)}."
        )
    if labels is not None:
        images = _with_labels(images, labels)
    gap = require_count("tile_frames: expected gap", gap, 0)
    height, width, depth = images[0].shape
    row_step = height + gap
    col_step = width + gap
    size = rows * row_step - gap, cols * col_step - gap, depth
    picture = np.full(size, 128 if gap else 0, images[0].dtype)
    tops = range(0, rows * row_step, row_step)
    lefts = range(0, cols * col_step, col_step)
    places = itertools.product(tops, lefts)
    for (y, x), image in zip(places, images, strict=False):
        picture[y : y + height, x : x + width] = image
    return picture


def _with_labels(images: list[np.ndarray], labels: Sequence[Any]) -> list[np.ndarray]:
    find_ffmpeg("tile_frames")
    from PIL import Image, ImageDraw

    if len(labels) != len(images):
        raise ValueError(
            f"tile_frames: expected a label for each of {len(images)} frames; got {[*labels]}."
        )
    pictures = [Image.fromarray(image) for image in images]
    height = max(10, images[0].shape[0] // 12)
    for picture, label in zip(pictures, labels, strict=True):
        pen = ImageDraw.Draw(picture)
        pen.text((3, 1), str(label), "white", stroke_width=1, stroke_fill="black", font_size=height)
    return [np.asarray(picture) for picture in pictures]
