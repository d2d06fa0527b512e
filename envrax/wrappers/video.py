"""`RecordVideo`: episodes as MP4 files, written on the host."""

import contextlib
import os
import re
import subprocess
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np
from jax.core import Tracer

from envrax.env import ActSpaceT, ConfigT, Info, JaxEnv, ObsSpaceT, StateT
from envrax.error import MissingPackageError
from envrax.wrappers.base import AnyEnv, Wrapper, layers, require
from envrax.wrappers.stateful import StatefulWrapper


class RecordVideo(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Record episodes, one MP4 file each: `episode_0000.mp4`, `episode_0001.mp4`, ...

    The number is that of the episode; files of an earlier run are kept and the numbers go on after
    them. A file has its name only once it is complete. An episode that is cut short, by a reset or
    by `close`, is kept. The triggers are OR-ed; without any, every episode is recorded. A recording
    that a trigger starts within an episode runs from there to its end.

    It works on the host, step by step, and so not under `jit`, `vmap` or `scan`, nor in a `VecEnv`.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap; it must have a `render`.
    output_dir : path-like, default "runs/recordings"
        Where the files go; made when the first one is begun.
    fps : int, default 30
        Frames per second.
    episode_trigger : callable, optional
        From the number of the episode, 0 first, to whether it is recorded; asked at reset.
    step_trigger : callable, optional
        From the number of the step since construction, 0 first, to whether to start; asked at
        every step.
    recording_trigger : callable, optional
        Without argument; asked at reset and at every step.

    Raises
    ------
    TypeError
        If the environment has no `render`, or `fps` is no number.
    ValueError
        If `fps` is not above 0.
    MissingPackageError
        If the packages of the extra `video` are not installed.
    """

    def __init__(
        self,
        env: JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT],
        output_dir: str | os.PathLike[str] = "runs/recordings",
        fps: int = 30,
        episode_trigger: Callable[[int], bool] | None = None,
        step_trigger: Callable[[int], bool] | None = None,
        recording_trigger: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__(env)
        require(_draws(env), type(self), "an environment with a `render`", env)
        if not isinstance(cast(Any, fps), int | float):
            raise TypeError(f"RecordVideo: expected fps to be a number; got {fps!r}.")
        if not fps > 0:
            raise ValueError(f"RecordVideo: expected fps above 0; got {fps}.")
        _ffmpeg()  # a missing encoder is better told now than at the first episode
        self.output_dir, self.fps = output_dir, fps
        self.episode_trigger = episode_trigger
        self.step_trigger = step_trigger
        self.recording_trigger = recording_trigger
        self._episode, self._steps = -1, 0
        self._first: int | None = None  # number of this run's episode 0
        self._video: _Video | None = None
        self._finish: Callable[[], Any] | None = None  # closes the video, also at exit

    @property
    def traceable(self) -> bool:
        return False

    @property
    def recording(self) -> bool:
        """Whether an episode is being recorded at this moment."""
        return self._video is not None

    def reset(self, rng: jax.Array) -> tuple[Any, StateT]:
        _refuse_tracers(rng)
        self._complete()
        obs, state = super().reset(rng)
        _refuse_tracers(state)  # a `jit` may close over the key
        self._episode += 1
        if self._due(self.episode_trigger, self._episode):
            self._start(state)
        return obs, state

    def step(self, state: StateT, action: Any) -> tuple[Any, StateT, jax.Array, jax.Array, Info]:
        _refuse_tracers((state, action))
        before = state
        obs, state, reward, done, info = super().step(state, action)
        _refuse_tracers(state)
        # Without triggers every episode is recorded from its reset on, and never begun here.
        due = self._triggers and self._due(self.step_trigger, self._steps)
        self._steps += 1
        if due and self._video is None and not bool(before.done):
            self._start(before)
        if self._video is not None:
            self._video.add(self.render(state))
        if bool(state.done):
            self._complete()
        return obs, state, reward, done, info

    def close(self) -> None:
        """Complete the file of the episode that is being recorded, if there is one."""
        self._complete()
        super().close()

    def _complete(self) -> None:
        finish, self._finish, self._video = self._finish, None, None
        if finish is not None:
            finish()

    def __getstate__(self) -> dict[str, Any]:
        # A file that is being written has one writer.
        return {**vars(self), "_video": None, "_finish": None}

    @property
    def _triggers(self) -> bool:
        given = (self.episode_trigger, self.step_trigger, self.recording_trigger)
        return any(trigger is not None for trigger in given)

    def _due(self, trigger: Callable[[int], bool] | None, number: int) -> bool:
        if not self._triggers:
            return True
        asked = self.recording_trigger is not None and bool(self.recording_trigger())
        return (trigger is not None and bool(trigger(number))) or asked

    def _start(self, state: StateT) -> None:
        frame = self.render(state)
        folder = Path(self.output_dir).absolute()  # ffmpeg takes a leading "-" for an option
        folder.mkdir(parents=True, exist_ok=True)
        free = _free_number(folder)
        if self._first is None:
            self._first = free
        number = max(free, self._first + self._episode)
        self._video = _Video(folder / f"episode_{number:04d}.mp4", self.fps, frame)
        self._finish = weakref.finalize(self, self._video.close)


class _Video:
    """One MP4 file, streamed to the encoder under a temporary name and renamed when complete."""

    def __init__(self, path: Path, fps: float, frame: np.ndarray) -> None:
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[-1] != 3:
            raise ValueError(
                "RecordVideo: expected `render` to give uint8 frames of shape (H, W, 3); got "
                f"{frame.shape} {frame.dtype}."
            )
        self._path, self._part = path, path.with_name(f"{path.name}.part")
        self._part.touch(exist_ok=False)  # the number is taken, long before ffmpeg writes
        self._shape = height, width, _ = frame.shape
        # 4:2:0 halves the colour planes, for which both sides must be even.
        pixels = "yuv444p" if height % 2 or width % 2 else "yuv420p"
        options = (
            f"-y -loglevel error -f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {fps} -i pipe: "
            f"-c:v libx264 -pix_fmt {pixels} -f mp4"
        )
        # Not by way of imageio, which starts ffmpeg with a `preexec_fn`: that forks, and a fork
        # beside the threads of JAX can hang. In a session of its own ffmpeg outlives a Ctrl-C.
        self._encoder: Any = subprocess.Popen(
            [_ffmpeg(), *options.split(), self._part],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.add(frame)

    def add(self, frame: np.ndarray) -> None:
        if frame.shape != self._shape or frame.dtype != np.uint8:
            raise ValueError(
                f"RecordVideo: expected every frame of shape {self._shape}, uint8; got "
                f"{frame.shape} {frame.dtype}."
            )
        with contextlib.suppress(BrokenPipeError):  # `close` tells why
            self._encoder.stdin.write(np.ascontiguousarray(frame).data)

    def close(self) -> None:
        _, said = self._encoder.communicate()
        if self._encoder.returncode != 0:
            raise RuntimeError(
                f"RecordVideo: expected ffmpeg to complete {self._path}; got an error: "
                f"{said.decode(errors='replace').strip()}"
            )
        os.replace(self._part, self._path)


def _free_number(folder: Path) -> int:
    """The number behind those of all files in the folder."""
    names = (path.name for path in (folder.iterdir() if folder.is_dir() else ()))
    matches = (re.fullmatch(r"episode_(\d+)\.mp4(?:\.part)?", name) for name in names)
    return max((int(match[1]) + 1 for match in matches if match), default=0)


def _draws(env: AnyEnv) -> bool:
    passed_on: set[Any] = {JaxEnv.render, Wrapper.render, StatefulWrapper.render}
    return any(type(layer).render not in passed_on for layer in layers(env))


def _ffmpeg() -> str:
    """The encoder that the extra `video` brings."""
    try:
        import imageio as imageio  # the extra is there as a whole, or missing
        import imageio_ffmpeg

        return imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:
        raise MissingPackageError(
            f"RecordVideo: expected the packages of the extra `video`; got an error: {error}. "
            'Install them with `pip install "envrax[video]"`.'
        ) from error


def _refuse_tracers(tree: Any) -> None:
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree)):
        raise RuntimeError(
            "RecordVideo is incompatible with JAX transforms (jit, vmap, scan): it writes files, "
            "step by step. Call reset and step from Python, and compile beneath it."
        )
