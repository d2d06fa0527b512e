"""`RecordVideo` of a batch: MP4 files of some of its slots, also from compiled programs."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import jax
import numpy as np
from jax.experimental import io_callback

from envrax._checks.counts import require_count
from envrax._jax.keys import clone_keys
from envrax._jax.mesh import take_slots
from envrax._jax.types import is_traced
from envrax.autoreset.slot import checked_step
from envrax.batched_env import AnyBatch, BatchedEnv, StepOptions
from envrax.compiled_batch import CompiledBatch
from envrax.env import ActSpaceT, AnyEnv, ObsSpaceT
from envrax.spaces.conform import conform
from envrax.video.batch_recording import Recording
from envrax.video.encoder import require_fps
from envrax.video.ffmpeg import find_ffmpeg
from envrax.video.film import Frame, Schedule, SlotRenderer, draw_now, same_state
from envrax.wrappers.vector.base import BatchedWrapper, ForwardingBatch


class RecordVideo(BatchedWrapper[ObsSpaceT, ActSpaceT]):
    """
    Record some slots of a batch: each episode as an MP4 file, or all slots together in a grid.

    Recording also works inside the caller's own `jit` and `scan`. Each step sends the states of the
    recorded slots to the host. They are rendered and written on the next call from Python: of
    `write`, `close`, or of the `reset`, `step`, `rollout` or `evaluate` of a batch with this
    wrapper.

    The video of an episode has one frame more than the episode has steps: the first state, and the
    state after each step. This includes the last state before auto-reset. The batch does not return
    that state, so the environments of the recorded slots are stepped a second time to get it.

    Without triggers, every episode is recorded. With triggers, a video begins where one of them
    returns True, unless one of that slot is being recorded. It ends with the episode, or after
    `length` steps. Triggers are called on the host while a program runs, and must not call JAX.

    Files are named `slot_0-episode_0000.mp4` and so on, by the episode in which they begin. The
    files of a grid are named `grid_0000.mp4` and so on; each lasts from a reset to the next run or
    `close`, if it has no `length`. Numbers continue after existing files.

    If a reset or `close` cuts an episode short after its first step, its video is kept. Without a
    `close` it is written when Python exits. In a grid, every frame is one step of all slots: the
    last state of an episode is followed by the state after the first step of the next episode. The
    same holds for a video of one slot that goes on beyond the end of an episode.

    A video shows one run: a step from another state than the last step returned begins a video of
    its own. To record two runs in turn, use two recorders.

    States are held on the host until they are rendered: the states of one episode, or of all steps
    that a compiled program took since the last `write`, or with a grid those of all steps since the
    reset. Frames are encoded as they are rendered. A video whose rendering fails is abandoned, the
    others are written, and then the call raises the error.

    A batch that is not a `VecEnv`, such as a simulator on the host, is rendered with `render_slot`
    after each step, and cannot be recorded inside compiled programs. If its slots reset themselves,
    the video of an episode lacks its last frame, because `render_slot` then already shows the next
    episode.

    Calls are recorded in the order in which they run, so the wrapper does not work under `vmap`.
    Make it the outermost wrapper, or put it inside wrappers that do not render. On a mesh, the
    videos are the same as on one device. All devices must belong to one process.

    Parameters
    ----------
    env : BatchedEnv
        The batch; it must be able to render its slots.
    output_dir : path-like, default "runs/recordings"
        The folder for the files, created when the first one is written. `~` is the home directory.
    fps : float, default 30
        Frames per second.
    slots : int or sequence of int, optional
        An int records that many of the first slots. A sequence holds indices of slots; negative
        ones count from the end. Default: as many slots as `grid` shows, or else the first slot.
    grid : tuple of int, optional
        Rows and columns. All recorded slots are then in one video side by side, row by row.
    labels : sequence, optional
        A text or number to write on each slot of the grid.
    episode_trigger : callable, optional
        Called for each slot with the number of its episode, starting at 0. Returns whether to
        record the episode. For a grid, the number is that of the run.
    step_trigger : callable, optional
        Called after each step of the batch with the number of steps since construction, starting
        at 1. Returns whether to start a video of each slot, with the state that the step returned.
    length : int, optional
        The length of each video in steps, also beyond the end of an episode. By default, and if it
        is 0, a video ends with its episode.
    frozen : bool, default False
        Record nothing. For a run without videos of the same stack of wrappers.

    Raises
    ------
    TypeError
        If the batch cannot render its slots, its slots are agents, or an argument has another type.
    ValueError
        If a slot does not exist, there are more slots than the grid holds, the number of labels is
        not the number of slots, `length` is below 0, or `fps` is not above 0 and finite. If the
        batch is on devices of several processes and `frozen` is False. At the first step, under
        `vmap`.
    MissingPackageError
        If the packages of the extra `video` are not installed.
    RuntimeError
        At the first use, inside a compiled program, if the batch is not a `VecEnv`.
    """

    def __init__(
        self,
        env: BatchedEnv[ObsSpaceT, ActSpaceT],
        output_dir: str | os.PathLike[str] = "runs/recordings",
        fps: float = 30,
        *,
        slots: int | Sequence[int] | None = None,
        grid: tuple[int, int] | None = None,
        labels: Sequence[Any] | None = None,
        episode_trigger: Callable[[int], bool] | None = None,
        step_trigger: Callable[[int], bool] | None = None,
        length: int | None = None,
        frozen: bool = False,
    ) -> None:
        super().__init__(env)
        self._frozen = bool(frozen)
        self._require_one_process()
        base = _unwrap(env)[1]
        if base.agents != env.agents:
            raise TypeError(
                f"RecordVideo: expected slots that are worlds; got slots that are agents, of "
                f"{env}. Record the worlds: `agents_as_slots(RecordVideo(...))`."
            )
        if not self.can_render:
            raise TypeError(
                f"RecordVideo requires a batch that renders its slots; got {env}. Give its "
                "environment a `render(state)`, or the batch a `render_slot(state, slot_idx)`."
            )
        require_fps("RecordVideo", fps)
        find_ffmpeg()  # raises here if it is missing, not at the first episode
        self.output_dir = output_dir
        self.fps = fps
        self.slots = slots
        self.grid = grid
        self.labels = labels
        indices = _slot_indices(slots, self.n_slots, grid)
        if labels is not None and (not grid or len(labels) != len(indices)):
            raise ValueError(
                f"RecordVideo: expected labels for a grid of {len(indices)} slots; got {[*labels]}."
            )
        self.episode_trigger = episode_trigger
        self.step_trigger = step_trigger
        self.length = length
        steps = require_count("RecordVideo: expected length", length or 0, least=0)
        folder = Path(output_dir).expanduser().absolute()
        schedule = Schedule(episode_trigger, step_trigger, steps)
        self._recording = Recording(indices, folder, fps, grid, labels, schedule)

    @property
    def _write_first(self) -> Any:
        return *self.env._write_first, self._recording.write_before_call

    @property
    def copied_env(self) -> AnyEnv | None:
        return getattr(self.env, "copied_env", None) if self.frozen else None

    @property
    def frozen(self) -> bool:
        """Whether nothing is recorded. Read-only, because it is compiled in."""
        return self._frozen

    @property
    def waivers(self) -> dict[str, str]:
        """Rules of `check_batched_env` that the wrapper cannot keep."""
        if not self._sends_states:
            return {}
        return {"vmap_agrees": "calls are recorded in the order in which they run"}

    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        obs, state = super().reset(rng)
        if self._renders_slots:
            self._refuse_tracers(state)
            self._recording.end()
        return obs, state

    def _step_with(self, state: Any, actions: Any, options: StepOptions) -> Any:
        if not (self._renders_slots and isinstance(state, self.state_class)):
            return super()._step_with(state, actions, options)
        self._refuse_tracers((state, actions))
        recording = self._recording
        continues = [same_state(state, recording.last)] * len(recording.slots)
        begun = recording.begins(continues, partial(self._drawn, state))
        obs, state, rewards, dones, infos = super()._step_with(state, actions, options)
        ended = np.asarray(dones)[recording.slots]
        if ended.dtype != np.bool_:  # a discount of 1 would pass for an end
            raise TypeError(
                f"RecordVideo.step: expected dones that are bool; got {ended.dtype}. Leave out "
                "the wrapper that changes them."
            )
        now = partial(self._drawn, state)

        def after(place: int) -> Frame | None:
            # The last state of an episode is gone. What goes on shows the first of the next.
            goes_on = self.grid or self.length
            return now(place) if goes_on or not ended[place] else None

        recording.add_step(begun, after, ended.tolist(), now)
        recording.last = state
        return obs, state, rewards, dones, infos

    def write(self) -> None:
        """Write the files of all complete episodes, after a compiled program has run."""
        jax.effects_barrier()
        self._recording.write()

    def close(self) -> None:
        """Write all files, including those of unfinished episodes."""
        try:
            jax.effects_barrier()
            self._recording.finish()
        finally:
            super().close()

    def around(self, env: AnyBatch) -> Self:
        other = super().around(env)
        other._require_one_process()
        return other

    def _require_one_process(self) -> None:
        layout = self.layout
        if not (self.frozen or layout is None or layout.is_fully_addressable):
            raise ValueError(
                "RecordVideo: expected a batch on the devices of one process, which renders the "
                f"states of the slots; got {self.env} on devices of several processes. Pass "
                "`frozen=True`, or record a batch of one process."
            )

    @property
    def _sends_states(self) -> bool:
        """Whether compiled programs send states to the host, which renders them later."""
        return not self.frozen and _slot_env(_unwrap(self.env)[1]) is not None

    @property
    def _renders_slots(self) -> bool:
        """Whether slots are rendered after each call from Python."""
        return not (self.frozen or self._sends_states)

    def _refuse_tracers(self, arguments: Any) -> None:
        if is_traced(arguments):
            raise RuntimeError(
                "RecordVideo: expected a VecEnv, the only batch that it records inside a compiled "
                f"program; got {self.env}. Call reset and step from Python."
            )

    def _drawn(self, state: Any, place: int) -> Frame:
        return draw_now(self.render_slot, state, self._recording.slots[place])

    def _step_all(self, state: Any, actions: Any, options: StepOptions) -> Any:
        stepped = super()._step_all(state, actions, options)
        if self._sends_states:
            layers, base = _unwrap(self.env)
            for layer in layers:
                actions = layer.action(actions)
            actions = conform(base.action_space, actions, "RecordVideo.step")
            actions = take_slots(actions, np.asarray(self._recording.slots))
            step = jax.vmap(partial(checked_step, cast(AnyEnv, _slot_env(base))))
            before = self._recorded_states(layers, state)
            # The states after this step and before auto-reset, which the batch does not return.
            _, after, *_ = step(clone_keys(before), actions)
            states = [before, after, self._recorded_states(layers, stepped[1])]
            renderer = SlotRenderer(cast(AnyEnv, _slot_env(base)).render, before)
            sent = jax.lax.stop_gradient([renderer.arrays(x) for x in states])
            io_callback(
                partial(self._recording.receive, renderer), None, sent, after.done, ordered=True
            )
        return stepped

    def _recorded_states(self, layers: list[BatchedWrapper[Any, Any]], state: Any) -> Any:
        """The states of the recorded slots, without the states of wrappers of the batch."""
        for _ in (self, *layers):
            state = state.env_state
        states = take_slots(state, np.asarray(self._recording.slots))
        return clone_keys(states)  # the step of the batch uses the same keys, on purpose


def _unwrap(env: AnyBatch) -> tuple[list[BatchedWrapper[Any, Any]], AnyBatch]:
    """The wrappers of a batch, the outermost first, and the batch inside them, unsharded."""
    layers: list[BatchedWrapper[Any, Any]] = []
    while isinstance(env, ForwardingBatch):
        if isinstance(env, BatchedWrapper):
            layers.append(env)
        env = env.env
    return layers, env


def _slot_env(batch: AnyBatch) -> AnyEnv | None:
    """The environment of every slot; None for a batch that renders its slots itself."""
    return batch.copied_env if isinstance(batch, CompiledBatch) else None


def _slot_indices(slots: Any, n_slots: int, grid: tuple[int, int] | None) -> list[int]:
    """
    The indices of the slots to record, from the arguments of `RecordVideo`.

    Raises
    ------
    ValueError
        If a slot does not exist, or there are more than the grid holds.
    """
    grid_size = None
    if grid is not None:
        rows, cols = (require_count("RecordVideo: expected rows and columns", n) for n in grid)
        grid_size = rows * cols
    if slots is None:
        slots = grid_size or 1
    if not isinstance(slots, Sequence | np.ndarray):
        slots = range(require_count("RecordVideo: expected slots", slots))
    try:
        indices: list[int] = [range(n_slots)[slot] for slot in cast(Any, slots)]
    except IndexError:
        raise ValueError(
            f"RecordVideo: expected slots of a batch of {n_slots}; got {[*slots]}. Record fewer."
        ) from None
    if grid_size and len(indices) > grid_size:
        raise ValueError(
            f"RecordVideo: expected up to {grid_size} slots for a grid of {grid}; got "
            f"{len(indices)}."
        )
    return indices
