"""MP4 files, encoded by ffmpeg while their frames come in."""

import contextlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from envrax.error import MissingPackageError


class VideoFile:
    """
    One MP4 file. It is written under a temporary name and renamed when it is complete.

    Parameters
    ----------
    folder : Path
        Where the file goes; made if it does not exist.
    number : int
        Number in the name of the file. If it is taken, the next free one is used.
    fps : float
        Frames per second.
    frame : np.ndarray
        First frame, uint8 of shape (H, W, 3). All others must be of the same shape.

    Raises
    ------
    ValueError
        If `frame` is of another shape or dtype.
    """

    def __init__(self, folder: Path, number: int, fps: float, frame: np.ndarray) -> None:
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[-1] != 3:
            raise ValueError(
                "RecordVideo: expected `render` to give uint8 frames of shape (H, W, 3); got "
                f"{frame.shape} {frame.dtype}."
            )
        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._part = _claim(folder, number)
        self._shape = frame.shape
        self._encoder = start_encoder(self._part, fps, frame.shape)
        self.add(frame)

    def add(self, frame: np.ndarray) -> None:
        """Append a frame."""
        if frame.shape != self._shape or frame.dtype != np.uint8:
            raise ValueError(
                f"RecordVideo: expected every frame of shape {self._shape}, uint8; got "
                f"{frame.shape} {frame.dtype}."
            )
        with contextlib.suppress(BrokenPipeError):  # ffmpeg has failed; `close` says why
            self._encoder.stdin.write(np.ascontiguousarray(frame).data)

    def close(self) -> None:
        """Wait for ffmpeg and give the file its name."""
        _, said = self._encoder.communicate()
        if self._encoder.returncode != 0:
            self._part.unlink(missing_ok=True)
            raise RuntimeError(
                f"RecordVideo: expected ffmpeg to complete {self._path}; got an error: "
                f"{said.decode(errors='replace').strip()}"
            )
        os.replace(self._part, self._path)


def free_number(folder: Path) -> int:
    """The number after the highest one in the names of the files in `folder`."""
    names = (path.name for path in (folder.iterdir() if folder.is_dir() else ()))
    matches = (re.fullmatch(r"episode_(\d+)\.mp4(?:\.part)?", name) for name in names)
    return max((int(match[1]) + 1 for match in matches if match), default=0)


def find_ffmpeg() -> str:
    """The path of the ffmpeg that the extra `video` installs."""
    try:
        import imageio as imageio  # checked too, so that the extra is installed as a whole
        import imageio_ffmpeg

        return imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:
        raise MissingPackageError(
            f"RecordVideo: expected the packages of the extra `video`; got an error: {error}. "
            'Install them with `pip install "envrax[video]"`.'
        ) from error


def start_encoder(path: Path, fps: float, shape: tuple[int, ...]) -> Any:
    """An ffmpeg process that reads raw frames of `shape` and writes an MP4 to `path`."""
    height, width, _ = shape
    # 4:2:0 halves the colour planes, for which both sides must be even.
    pixels = "yuv444p" if height % 2 or width % 2 else "yuv420p"
    options = (
        f"-y -loglevel error -f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {fps} -i pipe: "
        f"-c:v libx264 -pix_fmt {pixels} -f mp4"
    )
    # Not through imageio, which starts ffmpeg with a `preexec_fn`: that forks, and a fork beside
    # the threads of JAX can hang. In a session of its own ffmpeg outlives a Ctrl-C.
    return subprocess.Popen(
        [find_ffmpeg(), *options.split(), path],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _claim(folder: Path, number: int) -> tuple[Path, Path]:
    """
    The first free path from `number` on, and the temporary one, which is created.

    Recorders in other threads and processes may write to the same folder. A number belongs to the
    one that creates the temporary file, as long as no complete file has it.
    """
    while True:
        path = folder / f"episode_{number:04d}.mp4"
        part = path.with_name(f"{path.name}.part")
        with contextlib.suppress(FileExistsError):
            part.touch(exist_ok=False)
            if not path.exists():
                return path, part
            part.unlink()
        number += 1
