"""Video files: MP4 and GIF, under a temporary name until they are complete."""

import contextlib
import math
import re
from collections.abc import Iterable
from numbers import Real
from pathlib import Path
from typing import Any, cast

import numpy as np

from envrax._checks.files import put_in_place
from envrax.video.ffmpeg import Encoder
from envrax.video.forks import forget_in_forks


class VideoWriter:
    """
    Writes a video file, under a temporary name until it is complete.

    Parameters
    ----------
    who : str
        The caller, for error messages.
    path, part : Path
        The file, and the temporary file.
    fps : float
        Frames per second.
    frame : np.ndarray
        First frame, uint8 of shape (H, W, 3). All others must have the same shape.
    form : str, default "mp4"
        Or "gif".

    Attributes
    ----------
    takes_frames : bool
        False once the video has ended: at `close`, after an interrupt within `add`, and in a
        forked process, where the video belongs to the other one.

    Raises
    ------
    ValueError
        If a frame has another shape or dtype.
    """

    def __init__(
        self, who: str, path: Path, part: Path, fps: float, frame: np.ndarray, form: str = "mp4"
    ) -> None:
        self._who = who
        self._path = path
        self._part = part
        self._shape = frame.shape
        self._encoder: Encoder | None = None  # None once the file is complete or abandoned
        self.takes_frames = True
        try:
            self._encoder = Encoder(part, fps, frame.shape, form)
            forget_in_forks(self)
            self.add(frame)
        except BaseException:
            self.abandon()
            raise

    def add(self, frame: np.ndarray) -> None:
        """Append a frame."""
        if frame.shape != self._shape or frame.dtype != np.uint8:
            raise ValueError(
                f"{self._who}: expected every frame of shape {self._shape}, uint8; got "
                f"{frame.shape} {frame.dtype}."
            )
        assert self._encoder is not None
        try:
            self._encoder.write(frame)
        except BaseException:
            self.takes_frames = False  # after half a frame, the next would be scrambled
            raise

    def complete(self, frames: Iterable[np.ndarray]) -> None:
        """Append frames and close. If a frame raises an error, no file remains."""
        try:
            for frame in frames:
                self.add(frame)
            self.close()
        except BaseException:
            self.abandon()
            raise

    def close(self) -> None:
        """
        Wait for ffmpeg, then give the file its name. After an interrupt, call it again.

        Raises
        ------
        RuntimeError
            If ffmpeg failed. No file remains.
        """
        if self._encoder is None:
            return
        self.takes_frames = False
        failure = self._encoder.finish()
        if failure is not None:
            self.abandon()
            raise RuntimeError(
                f"{self._who}: expected ffmpeg to complete {self._path}; it ended with {failure}."
            )
        try:
            put_in_place(self._part, self._path)
        except OSError:
            self.abandon()
            raise
        self._encoder = None

    def abandon(self) -> None:
        """Close without a file."""
        self.takes_frames = False
        if self._encoder is not None:
            self._encoder.kill()
        self._part.unlink(missing_ok=True)
        self._encoder = None

    def forget(self) -> None:
        self.takes_frames = False
        if self._encoder is not None:
            self._encoder.forget()
        self._encoder = None


def open_video(
    folder: Path,
    first_numbers: dict[str, int],
    episode: int,
    fps: float,
    frame: np.ndarray,
    prefix: str = "episode",
) -> VideoWriter:
    """
    Open a numbered MP4 file of `RecordVideo` in a folder, which is made if it is missing.

    `first_numbers` holds the number of episode 0 for each prefix, which the first file decides. If
    the number of the episode is taken, the next free number is used.
    """
    require_image("RecordVideo: expected `render` to give", frame)
    free = free_number(folder, prefix)
    number = max(free, first_numbers.setdefault(prefix, free) + episode)
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
