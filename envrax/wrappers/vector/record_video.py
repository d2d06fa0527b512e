"""`RecordVideo` for a batch: MP4 files of some of its slots, also from compiled programs."""

import os
from collections.abc import Sequence
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
from envrax.autoreset.slot import step_slot
from envrax.batched_env import BatchedEnv
from envrax.compiled_batch import CompiledBatch
from envrax.env import ActSpaceT, AnyEnv, Info, ObsSpaceT
from envrax.spaces.conform import conform
from envrax.video.batch_recording import Frame, Recording, SlotRenderer
from envrax.video.encoder import find_ffmpeg, require_fps
from envrax.wrappers.record_video import implements_render
from envrax.wrappers.vector.base import BatchedWrapper
from envrax.wrappers.vector.forwarding import ForwardingBatch

AnyBatch = BatchedEnv[Any, Any]


class RecordVideo(BatchedWrapper[ObsSpaceT, ActSpaceT]):
    """
    Record some slots of a batch: every episode of each as an MP4 file, or all in one grid.

    It also records within the caller's own `jit` and `scan`. Each step sends the states of these
    slots to the host. They are rendered and written on the next call from Python: a `reset` or
    `step`, `write`, `close`, or the end of a `with` block. The video of an episode has one frame
    more than the episode has steps: the first state, and the state after each step, including the
    last one before the auto-reset. For that one, the environments of these slots are stepped a
    second time, on their own.

    Files are named `slot_0-episode_0000.mp4` and so on; with a grid `grid_0000.mp4`, one from each
    reset to the next or to `close`. Numbers continue after those of existing files. An episode that
    a reset or `close` cuts short is kept; without a `close` it is written when Python exits. In a
    grid, every frame is one step of all slots: after the last state of an episode comes the state
    after the first step of the next one.

    Until they are rendered, the states of these slots are held on the host: those of one episode,
    of all steps that a compiled program took since the last `write`, and with a grid of all steps
    since the reset. Frames are encoded as they are rendered.

    A batch that is not a `VecEnv`, such as a simulator on the host, is rendered with `render_slot`
    after each step, and not within compiled programs. If its slots reset themselves, the frame
    after an episode's last step is the first one of the next episode: a video then lacks the last
    frame of its episode.

    Calls are recorded in the order in which they run, so it cannot be mapped with `vmap`. Put it
    outermost, or beneath wrappers that do not render. On a mesh, videos are those of the batch on
    one device; all devices must belong to one process.

    Parameters
    ----------
    env : BatchedEnv
        The batch; it must be able to render its slots.
    output_dir : path-like, default "runs/recordings"
        The folder for the files, made when the first one is written. `~` is the home directory.
    fps : float, default 30
        Frames per second.
    slots : int or sequence of int, optional
        How many of the first slots, or which ones, by list rules. Default: as many as `grid`
        shows, else the first one.
    grid : tuple of int, optional
        Rows and columns: one video of all these slots side by side, row by row.
    labels : sequence, optional
        Texts or numbers to write on each slot of the grid.
    frozen : bool, default False
        Record nothing, for a run of the same stack that needs no video.

    Raises
    ------
    TypeError
        If the batch does not render its slots, or an argument is of another kind.
    ValueError
        If there are no such slots, more than the grid holds, not one label for each, or `fps` is
        not above 0 and finite; the batch lies on the devices of several processes and is not
        `frozen`; or, at the first use, in `vmap`.
    MissingPackageError
        If the packages of the extra `video` are not installed.
    RuntimeError
        At the first use, in a compiled program around a batch that is not a `VecEnv`.
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
        frozen: bool = False,
    ) -> None:
        super().__init__(env)
        self._frozen = bool(frozen)
        self._require_one_process()
        copied = _copied_env(_peeled(env)[1])
        if not (implements_render(copied) if copied else self.can_render):
            raise TypeError(
                f"RecordVideo requires a batch that renders its slots; got {env}. Give its "
                "environment a `render(state)`, or the batch a `render_slot(state, slot_idx)`."
            )
        require_fps("RecordVideo", fps)
        find_ffmpeg()  # fail here if it is missing, and not at the first episode
        self.output_dir = output_dir
        self.fps = fps
        self.slots = slots
        self.grid = grid
        self.labels = labels
        chosen = _slots(slots, self.n_slots, grid)
        if labels is not None and (not grid or len(labels) != len(chosen)):
            raise ValueError(
                f"RecordVideo: expected labels for a grid of {len(chosen)} slots; got {[*labels]}."
            )
        folder = Path(output_dir).expanduser().absolute()
        self._recording = Recording(chosen, folder, fps, grid, labels)

    @property
    def frozen(self) -> bool:
        """Whether nothing is recorded. It cannot be set, since it is compiled in."""
        return self._frozen

    @property
    def waivers(self) -> dict[str, str]:
        """Rules of `check_batched_env` that it cannot keep."""
        return {"vmap_agrees": "calls are recorded in their order"} if self._sends else {}

    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        self._write_if_outside(rng)
        obs, state = super().reset(rng)
        if self._renders:
            self._recording.begin(self._rendered(state))
        return obs, state

    def step(self, state: Any, actions: Any) -> tuple[Any, Any, jax.Array, jax.Array, Info]:
        self._write_if_outside((state, actions))
        obs, state, rewards, dones, infos = super().step(state, actions)
        if self._renders:
            frames = self._rendered(state)
            ended = np.asarray(dones)[self._recording.slots]
            if ended.dtype != np.bool_:  # a discount of 1 would pass for an end
                raise TypeError(
                    f"RecordVideo.step: expected dones that are bool; got {ended.dtype}. Leave out "
                    "the wrapper that changes them."
                )
            self._recording.add_step(ended.tolist(), frames)
        return obs, state, rewards, dones, infos

    def write(self) -> None:
        """Write the files of the episodes that are complete, after a compiled program has run."""
        jax.effects_barrier()
        self._recording.write()

    def close(self) -> None:
        """Write all files, those of the running episodes too."""
        jax.effects_barrier()
        self._recording.finish()
        super().close()

    def around(self, env: AnyBatch) -> Self:
        other = super().around(env)
        other._require_one_process()
        return other

    def _require_one_process(self) -> None:
        layout = self.layout
        if not (self.frozen or layout is None or layout.is_fully_addressable):
            raise ValueError(
                "RecordVideo: expected the devices of one process, to which the states of the "
                f"slots are sent; got {self.env} on those of several. Pass `frozen=True`, or "
                "record a batch of one process."
            )

    @property
    def _sends(self) -> bool:
        """Whether programs send states to the host, which renders them later."""
        return not self.frozen and _copied_env(_peeled(self.env)[1]) is not None

    @property
    def _renders(self) -> bool:
        """Whether slots are rendered after each call from Python."""
        return not (self.frozen or self._sends)

    def _write_if_outside(self, arguments: Any) -> None:
        if not is_traced(arguments):
            self._recording.write()

    def _rendered(self, state: Any) -> list[Frame]:
        if is_traced(state):
            raise RuntimeError(
                "RecordVideo: expected a VecEnv, of which a compiled program can be recorded; got "
                f"{self.env}. Call reset and step from Python."
            )
        images = [self.render_slot(state, slot) for slot in self._recording.slots]
        return [partial(np.array, image) for image in images]

    def _reset_all(self, rng: jax.Array) -> tuple[Any, Any]:
        obs, state = super()._reset_all(rng)
        if self._sends:
            layers, base = _peeled(self.env)
            self._send(base, [self._taken(layers, state)])
        return obs, state

    def _step_all(self, state: Any, actions: Any) -> Any:
        stepped = super()._step_all(state, actions)
        if self._sends:
            layers, base = _peeled(self.env)
            for layer in layers:
                actions = layer.action(actions)
            actions = conform(base.action_space, actions, "RecordVideo.step")
            actions = take_slots(actions, np.asarray(self._recording.slots))
            step = jax.vmap(partial(step_slot, cast(AnyEnv, _copied_env(base))))
            # The states after this step, before any reset, which the batch does not return.
            _, last, *_, ended = step(self._taken(layers, state), actions)
            states = [last, self._taken(layers, stepped[1])]
            self._send(base, states, ended)
        return stepped

    def _taken(self, layers: list[BatchedWrapper[Any, Any]], state: Any) -> Any:
        """The states of the recorded slots, as a single environment has them."""
        for _ in (self, *layers):
            state = state.env_state
        taken = take_slots(state, np.asarray(self._recording.slots))
        return clone_keys(taken)  # the step of the batch uses them too, on purpose

    def _send(self, base: AnyBatch, states: list[Any], *ended: jax.Array) -> None:
        renderer = SlotRenderer(cast(AnyEnv, _copied_env(base)).render, states[0])
        sent = jax.lax.stop_gradient(([renderer.arrays(x) for x in states], *ended))
        io_callback(partial(self._recording.receive, renderer), None, *sent, ordered=True)


def _peeled(env: AnyBatch) -> tuple[list[BatchedWrapper[Any, Any]], AnyBatch]:
    """The wrappers around a batch, outermost first, and the unsharded batch."""
    layers: list[BatchedWrapper[Any, Any]] = []
    while isinstance(env, ForwardingBatch):
        if isinstance(env, BatchedWrapper):
            layers.append(env)
        env = env.env
    return layers, env


def _copied_env(batch: AnyBatch) -> AnyEnv | None:
    """The environment that every slot is a copy of; None for a batch that renders itself."""
    return batch.copied_env if isinstance(batch, CompiledBatch) else None


def _slots(slots: Any, n_slots: int, grid: tuple[int, int] | None) -> list[int]:
    shown = None
    if grid is not None:
        rows, cols = (require_count("RecordVideo: expected rows and columns", n) for n in grid)
        shown = rows * cols
    if slots is None:
        slots = shown or 1
    if not isinstance(slots, Sequence | np.ndarray):
        slots = range(require_count("RecordVideo: expected slots", slots))
    try:
        chosen: list[int] = [range(n_slots)[slot] for slot in cast(Any, slots)]
    except IndexError:
        raise ValueError(
            f"RecordVideo: expected slots of a batch of {n_slots}; got {[*slots]}. Record fewer."
        ) from None
    if shown and len(chosen) > shown:
        raise ValueError(
            f"RecordVideo: expected up to {shown} slots for a grid of {grid}; got {len(chosen)}."
        )
    return chosen
