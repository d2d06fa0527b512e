"""MP4 and GIF files, which ffmpeg encodes while frames are added."""

import contextlib
import math
import os
import re
import subprocess
from collections.abc import Iterable
from numbers import Real
from pathlib import Path
from typing import Any, cast

import numpy as np

from envrax._checks.packages import how_to_install
from envrax.error import MissingPackageError


class VideoWriter:
    """
    Writes a video file, under a temporary name until it is complete.

    Parameters
    ----------
    who : str
        The caller, for error messages.
    path, part : Path
        The file, an MP4 or a GIF by its suffix, and the temporary file.
    fps : float
        Frames per second.
    frame : np.ndarray
        First frame, uint8 of shape (H, W, 3). All others must have the same shape.

    Raises
    ------
    ValueError
        If a frame has another shape or dtype.
    """

    def __init__(self, who: str, path: Path, part: Path, fps: float, frame: np.ndarray) -> None:
        self._who = who
        self._path = path
        self._part = part
        self._shape = frame.shape
        self._encoder = start_encoder(part, fps, frame.shape, path.suffix.lower()[1:])
        self.add(frame)

    def add(self, frame: np.ndarray) -> None:
        """Append a frame."""
        if frame.shape != self._shape or frame.dtype != np.uint8:
            raise ValueError(
                f"{self._who}: expected every frame of shape {self._shape}, uint8; got "
                f"{frame.shape} {frame.dtype}."
            )
        with contextlib.suppress(BrokenPipeError):  # ffmpeg has failed; `close` says why
            self._encoder.stdin.write(np.ascontiguousarray(frame).data)

    def complete(self, frames: Iterable[np.ndarray]) -> None:
        """Append frames and close. If a frame raises an error, no file remains."""
        try:
            for frame in frames:
                self.add(frame)
        except BaseException:
            self._encoder.communicate()
            self._part.unlink(missing_ok=True)
            raise
        self.close()

    def close(self) -> None:
        """Wait for ffmpeg, then give the file its name."""
        _, stderr = self._encoder.communicate()
        if self._encoder.returncode != 0:
            self._part.unlink(missing_ok=True)
            raise RuntimeError(
                f"{self._who}: expected ffmpeg to complete {self._path}; got an error: "
                f"{stderr.decode(errors='replace').strip()}"
            )
        os.replace(self._part, self._path)


def open_video(
    folder: Path, number: int, fps: float, frame: np.ndarray, prefix: str = "episode"
) -> VideoWriter:
    """
    Open a numbered MP4 file of `RecordVideo` in a folder, which is made if it is missing.

    If the number is taken, the next free number is used.
    """
    require_image("RecordVideo: expected `render` to give", frame)
    folder.mkdir(parents=True, exist_ok=True)
    return VideoWriter("RecordVideo", *_claim_path(folder, prefix, number), fps, frame)


def require_fps(who: str, fps: Any) -> None:
    """Raise unless `fps` is a finite number above 0."""
    if not isinstance(fps, Real):
        raise TypeError(f"{who}: expected fps to be a number; got {fps!r}.")
    if not 0 < cast(float, fps) < math.inf:
        raise ValueError(f"{who}: expected fps above 0 and finite; got {fps}.")


def require_image(expected: str, frame: np.ndarray) -> None:
    """Raise unless `frame` is an RGB image; the message begins with `expected`."""
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[-1] != 3:
        raise ValueError(
            f"{expected} uint8 frames of shape (H, W, 3); got {frame.shape} {frame.dtype}."
        )


def free_number(folder: Path, prefix: str = "episode") -> int:
    """The number after the highest number in the file names of `folder`."""
    names = (path.name for path in (folder.iterdir() if folder.is_dir() else ()))
    matches = (re.fullmatch(rf"{prefix}_(\d+)\.mp4(?:\.part)?", name) for name in names)
    return max((int(match[1]) + 1 for match in matches if match), default=0)


def find_ffmpeg(who: str = "RecordVideo") -> str:
    """The path of the ffmpeg that the extra `video` installs."""
    try:
        import imageio as imageio  # imported to check that the whole extra is installed
        import imageio_ffmpeg

        return imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:
        raise MissingPackageError(
            f"{who}: expected the packages of the extra `video`; got an error: {error}. "
            f"Install them with {how_to_install('video')}."
        ) from error


def start_encoder(path: Path, fps: float, shape: tuple[int, ...], form: str = "mp4") -> Any:
    """An ffmpeg process that reads raw frames of `shape` and writes a file of `form` to `path`."""
    height, width, _ = shape
    # 4:2:0 halves the colour planes, so both sides must be even.
    pixels = "yuv444p" if height % 2 or width % 2 else "yuv420p"
    options = {
        "mp4": f"-c:v libx264 -pix_fmt {pixels} -f mp4",
        # One palette for all frames; repeated frames are kept.
        "gif": "-filter_complex split[a][b];[a]palettegen[p];[b][p]paletteuse -f gif",
    }
    read = f"-y -loglevel error -f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {fps} -i pipe:"
    # imageio would start ffmpeg with a `preexec_fn`. That forks, and a fork beside the threads of
    # JAX can hang. In a session of its own, ffmpeg survives a Ctrl-C.
    return subprocess.Popen(
        [find_ffmpeg(), *read.split(), *options[form].split(), path],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _claim_path(folder: Path, prefix: str, number: int) -> tuple[Path, Path]:
    """
    The first free path from `number` on, and that of its temporary file, which is created.

    Other threads and processes may record to the same folder. A number belongs to the recorder that
    creates the temporary file, unless a complete file has that number.
    """
    while True:
        path = folder / f"{prefix}_{number:04d}.mp4"
        part = path.with_name(f"{path.name}.part")
        with contextlib.suppress(FileExistsError):
            part.touch(exist_ok=False)
            if not path.exists():
                return path, part
            part.unlink()
        number += 1
