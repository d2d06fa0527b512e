"""`Encoder`: ffmpeg as a process, which is sent the frames of a video one by one."""

import contextlib
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from envrax._checks.packages import how_to_install
from envrax.error import MissingPackageError


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


class Encoder:
    """
    An ffmpeg process that reads raw frames and writes a file.

    Parameters
    ----------
    path : Path
        The file.
    fps : float
        Frames per second.
    shape : tuple of int
        (H, W, 3), the shape of every frame; uint8.
    form : str, default "mp4"
        The format of the file, "mp4" or "gif".
    """

    def __init__(self, path: Path, fps: float, shape: tuple[int, ...], form: str = "mp4") -> None:
        command = [find_ffmpeg(), *_options(fps, shape, form), path]
        # A file, because ffmpeg would wait for us if a pipe for its messages were full.
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115  # closed after ffmpeg has ended
        # imageio would start ffmpeg with a `preexec_fn`. That forks, and a fork beside the threads
        # of JAX can hang. In a session of its own, ffmpeg survives a Ctrl-C.
        self._process: Any = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._messages,
            start_new_session=True,
        )

    def write(self, frame: np.ndarray) -> None:
        """Send a frame. If ffmpeg has failed, nothing happens: `finish` says why."""
        rest = np.ascontiguousarray(frame).reshape(-1).data
        with contextlib.suppress(BrokenPipeError):
            while rest:
                rest = rest[self._process.stdin.write(rest) :]

    def finish(self) -> str | None:
        """
        Wait until ffmpeg has written the file, without half a frame at its end.

        After an interrupt, call it again.

        Returns
        -------
        str or None
            Why ffmpeg failed; None if it did not.
        """
        self._process.stdin.close()
        code: int = self._process.wait()
        if code == 0:
            self._messages.close()
            return None
        self._messages.seek(0)
        said = self._messages.read().decode(errors="replace").strip()
        ended = f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
        return f"{ended}, {said or 'without a message'}"

    def kill(self) -> None:
        """End ffmpeg at once. The file may be incomplete."""
        self._process.kill()
        self._process.stdin.close()
        self._process.wait()
        self._messages.close()

    def forget(self) -> None:
        """In a forked process: close the pipe, which would keep ffmpeg waiting for more."""
        self._process.stdin.close()


def _options(fps: float, shape: tuple[int, ...], form: str) -> list[str]:
    height, width, _ = shape
    # 4:2:0 halves the colour planes, so both sides must be even.
    pixels = "yuv444p" if height % 2 or width % 2 else "yuv420p"
    write = {
        "mp4": f"-c:v libx264 -pix_fmt {pixels} -f mp4",
        # One palette for all frames; repeated frames are kept.
        "gif": "-filter_complex split[a][b];[a]palettegen[p];[b][p]paletteuse -f gif",
    }
    read = f"-y -loglevel error -f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {fps} -i pipe:"
    return [*read.split(), *write[form].split()]
