"""`RecordVideo` of one environment: one MP4 file per episode, written on the host."""

import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from envrax._checks.marks import adds
from envrax._jax.types import is_traced
from envrax.env import ActSpaceT, AnyEnv, ConfigT, Info, JaxEnv, ObsSpaceT, StateT
from envrax.video.encoder import VideoWriter, open_video, require_fps
from envrax.video.ffmpeg import find_ffmpeg
from envrax.video.film import same_state
from envrax.wrappers.base import Wrapper, layers


class RecordVideo(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Record episodes, one MP4 file each: `episode_0000.mp4`, `episode_0001.mp4`, ...

    Files are numbered by episode. Existing files are kept, and the numbers continue after them. A
    file gets its name when it is complete. If a reset or `close` cuts an episode short after its
    first step, its file is kept.

    Without triggers, every episode is recorded. With triggers, an episode is recorded if one of
    them returns True. A recording that starts in the middle of an episode runs to its end.

    A file shows one run: it ends when a step is given another state than the last step returned.
    Without triggers, that step begins a file of its own. To record two runs in turn, use two
    recorders. A wrapper that changes the state between steps belongs inside the recorder.

    The wrapper runs on the host, so it does not work under `jit`, `vmap` or `scan`, nor in a
    `VecEnv`.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap; it must implement `render`.
    output_dir : path-like, default "runs/recordings"
        The folder for the files, created when the first recording starts. `~` is the home
        directory.
    fps : float, default 30
        Frames per second.
    episode_trigger : callable, optional
        Called at each reset with the number of the episode, starting at 0. Returns whether to
        record the episode.
    step_trigger : callable, optional
        Called after each step with the number of steps since construction, starting at 1. Returns
        whether to start recording, with the state after that step.
    recording_trigger : callable, optional
        Called without arguments at each reset and after each step. Returns whether to start
        recording.

    Raises
    ------
    TypeError
        If the environment does not implement `render`, or `fps` is not a number.
    ValueError
        If `fps` is not above 0 and finite.
    MissingPackageError
        If the packages of the extra `video` are not installed.
    """

    def __init__(
        self,
        env: JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT],
        output_dir: str | os.PathLike[str] = "runs/recordings",
        fps: float = 30,
        episode_trigger: Callable[[int], bool] | None = None,
        step_trigger: Callable[[int], bool] | None = None,
        recording_trigger: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__(env)
        if not implements_render(env):
            raise TypeError(
                f"RecordVideo requires an environment that implements render; got {env}. Give it a "
                "`render(state)` that returns a uint8 array of shape (H, W, 3)."
            )
        require_fps("RecordVideo", fps)
        find_ffmpeg()  # raises here if it is missing, not at the first episode
        self.output_dir = output_dir
        self.fps = fps
        self.episode_trigger = episode_trigger
        self.step_trigger = step_trigger
        self.recording_trigger = recording_trigger
        self._episode = -1
        self._steps = 0
        self._first_numbers: dict[str, int] = {}  # in the names of files, of episode 0
        self._last: Any = None  # the state that the last reset or step returned
        self._recording = False
        self._video: VideoWriter | None = None  # from the first step that is recorded
        self._finalizer: Any = None  # closes the file, also at exit

    @property
    def traceable(self) -> bool:
        return False

    @property
    def recording(self) -> bool:
        """Whether an episode is being recorded now."""
        return self._recording

    def _carries_over(self) -> bool:
        return self.env._carries_over()

    def reset(self, rng: jax.Array) -> tuple[Any, StateT]:
        _refuse_tracers(rng)
        self._end()
        return super().reset(rng)

    def reset_after(self, state: StateT) -> tuple[Any, StateT]:
        _refuse_tracers(state)
        self._end()
        return super().reset_after(state)

    def on_episode_start(self, obs: Any, state: Any) -> tuple[Any, StateT]:
        obs, state = super().on_episode_start(obs, state)
        _refuse_tracers(state)  # a function under `jit` may close over the key
        self._episode += 1
        self._last = state
        self._recording = self._records_all or self._triggered(self.episode_trigger, self._episode)
        return obs, state

    def step(self, state: StateT, action: Any) -> tuple[Any, StateT, jax.Array, jax.Array, Info]:
        _refuse_tracers((state, action))
        was_done = bool(state.done)
        self._follow(state, was_done)
        starts = self._recording and self._video is None
        # A copy, because the next `render` may draw on the same array.
        frames = [np.array(self.render(state))] if starts else []
        obs, state, reward, done, info = super().step(state, action)
        _refuse_tracers(state)
        self._steps += 1
        if self._triggered(self.step_trigger, self._steps) and not was_done:
            self._recording = True
        if self._recording:
            self._add([*frames, self.render(state)])
        self._last = state
        if bool(state.done):
            self._end()
        return obs, state, reward, done, info

    def observe(self, state: StateT) -> Any:
        return self._observe_inner(state)

    def close(self) -> None:
        """Complete the file of an episode that is being recorded."""
        try:
            self._end()
        finally:
            super().close()

    @property
    def _records_all(self) -> bool:
        return self.episode_trigger is self.step_trigger is self.recording_trigger is None

    def _triggered(self, trigger: Callable[[int], bool] | None, number: int) -> bool:
        by_recording_trigger = self.recording_trigger is not None and bool(self.recording_trigger())
        return (trigger is not None and bool(trigger(number))) or by_recording_trigger

    def _follow(self, state: StateT, is_done: bool) -> None:
        """End what a step from `state` does not continue."""
        if not same_state(state, self._last):
            self._end()
            self._recording = self._records_all and not is_done
        elif self._video is not None and not self._video.takes_frames:
            self._complete()  # it was interrupted

    def _add(self, frames: list[np.ndarray]) -> None:
        for frame in frames:
            if self._video is None:
                self._open(frame)
            else:
                self._video.add(frame)

    def _open(self, frame: np.ndarray) -> None:
        # Absolute, because ffmpeg reads a leading "-" as an option.
        folder = Path(self.output_dir).expanduser().absolute()
        where = folder, self._first_numbers, self._episode
        self._video = open_video(*where, self.fps, frame)
        self._finalizer = weakref.finalize(self, self._video.close)

    def _end(self) -> None:
        self._recording = False
        self._complete()

    def _complete(self) -> None:
        if self._video is not None:
            self._video.close()  # after an interrupt or an error within it, the next call goes on
            self._finalizer.detach()
            self._video = None

    def __getstate__(self) -> dict[str, Any]:
        # A copy must not write to the same file.
        nothing = {"_last": None, "_recording": False, "_video": None, "_finalizer": None}
        return {**vars(self), **nothing}


def implements_render(env: AnyEnv) -> bool:
    """Whether the base environment or one of its wrappers overrides `render`, or `can_render`."""
    return any(adds(x.render) or getattr(x, "can_render", False) for x in layers(env))


def _refuse_tracers(tree: Any) -> None:
    if is_traced(tree):
        raise RuntimeError(
            "RecordVideo is incompatible with JAX transforms (jit, vmap, scan): it writes files "
            "at each step. Call reset and step from Python, and put `JitWrapper` inside it."
        )
