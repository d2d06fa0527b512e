"""`RecordVideo` for a batch: some of its slots as MP4 files, also from compiled programs."""

import operator
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Self, cast

import jax
import numpy as np
from jax.custom_batching import custom_vmap
from jax.experimental import io_callback

from envrax._checks import require_count
from envrax._jax.keys import clone_keys
from envrax._jax.mesh import take_slots
from envrax._jax.programs import is_traced
from envrax.autoreset.slot import step_slot
from envrax.batched_env import BatchedEnv
from envrax.env import ActSpaceT, AnyEnv, Info, ObsSpaceT
from envrax.spaces.conform import conform
from envrax.wrappers.vector.around import AroundBatch
from envrax.wrappers.vector.base import BatchedWrapper
from envrax.wrappers.vector.recording import Form, Frame, Recording
from envrax.wrappers.video import implements_render
from envrax.wrappers.video_file import find_ffmpeg, require_fps


class RecordVideo(BatchedWrapper[ObsSpaceT, ActSpaceT]):
    """
    Record some slots of a batch: every episode of each as an MP4 file, or all in one grid.

    It also records within the caller's own `jit` and `scan`. Each step sends the states of these
    slots to the host. They are drawn, and files written, when Python comes by: in a later `reset`
    or `step` from Python, in `write`, and in `close` or at the end of a `with` block. The video of
    an episode has one frame more than the episode has steps: the first state, and the state after
    each step, the last one before the auto-reset included. For that the environments of these slots
    are stepped once more, alone.

    Files are `slot_0-episode_0000.mp4` and so on; with a grid `grid_0000.mp4`, from a reset to the
    next or to `close`. Numbers go on after those of existing files. An episode that a reset or
    `close` cuts short is kept; without a `close` it is written when Python exits. In a grid, a slot
    whose episode ended goes on with the next one, and shows the last frame of the one and the first
    of the other.

    Until they are drawn, the states of these slots are held on the host, one for each step: of one
    episode, of what a compiled program has run since the last `write`, and with a grid of all since
    the reset. Frames are encoded as they are drawn.

    A batch that is no `VecEnv`, such as a simulator on the host, is drawn with `render_slot` after
    each step, and not within compiled programs. If its slots reset themselves, the frame after an
    episode's last step is the first one of the next episode: the last frame of an episode is
    missing then, and a video has as many frames as the episode has steps.

    It records the calls in the order in which they run, and so one course of episodes. It cannot
    be mapped with `vmap`. Put it outermost, or beneath wrappers that draw nothing. On a mesh the
    videos are those of the batch on one device; the devices have to be those of one process.

    Parameters
    ----------
    env : BatchedEnv
        The batch; its slots must be drawable.
    output_dir : path-like, default "runs/recordings"
        The folder for the files, made when the first one is written. `~` is the home directory.
    fps : float, default 30
        Frames per second.
    slots : int or sequence of int, optional
        The first so many slots, or these, by list rules. Default: as many as `grid` shows, else
        the first one.
    grid : tuple of int, optional
        Rows and columns: one video of all these slots side by side, row by row.
    frozen : bool, default False
        Record nothing, for a run of the same stack that needs no video.

    Raises
    ------
    TypeError
        If the batch does not draw its slots, or an argument is of another kind.
    ValueError
        If there are no such slots, more than the grid holds, or `fps` is not above 0 and finite; or
        the batch lies on the devices of several processes, and is not `frozen`.
    MissingPackageError
        If the packages of the extra `video` are not installed.
    RuntimeError
        At the first use, in `vmap`, or in a compiled program around a batch that is no `VecEnv`.
    """

    def __init__(
        self,
        env: BatchedEnv[ObsSpaceT, ActSpaceT],
        output_dir: str | os.PathLike[str] = "runs/recordings",
        fps: float = 30,
        *,
        slots: int | Sequence[int] | None = None,
        grid: tuple[int, int] | None = None,
        frozen: bool = False,
    ) -> None:
        super().__init__(env)
        self._frozen = bool(frozen)
        self._find_copies()
        drawn = implements_render(self._copied) if self._copied else self.can_render
        if not drawn:
            raise TypeError(
                f"RecordVideo requires a batch that draws its slots; got {env}. Give its "
                "environment a `render(state)`, or the batch a `render_slot(state, slot_idx)`."
            )
        require_fps("RecordVideo", fps)
        find_ffmpeg()  # fail here if it is missing, and not at the first episode
        self.output_dir, self.fps, self.slots, self.grid = output_dir, fps, slots, grid
        shape = None if grid is None else _grid(grid)
        chosen = _slots(slots, self.n_slots, shape)
        folder = Path(output_dir).expanduser().absolute()
        self._recording = Recording(chosen, folder, fps, shape)

    @property
    def frozen(self) -> bool:
        """Whether nothing is recorded. Compiled programs know it, so it is fixed."""
        return self._frozen

    @property
    def waivers(self) -> dict[str, str]:
        """Rules of `check_batched_env` that it cannot keep."""
        return {"vmap_agrees": "videos are of one course of episodes"} if self._sends else {}

    def around(self, env: BatchedEnv[Any, Any]) -> Self:
        other = super().around(env)
        other._find_copies()
        return other

    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        self._write_if_outside(rng)
        obs, state = super().reset(rng)
        if self._draws:
            self._recording.begin(self._drawn(state))
        return obs, state

    def step(self, state: Any, actions: Any) -> tuple[Any, Any, jax.Array, jax.Array, Info]:
        self._write_if_outside((state, actions))
        obs, state, rewards, dones, infos = super().step(state, actions)
        if self._draws:
            frames, ended = self._drawn(state), np.asarray(dones)[self._recording.slots]
            if ended.dtype != np.bool_:
                raise TypeError(
                    f"RecordVideo.step: expected dones that are bool; got {ended.dtype}. Leave out "
                    "the wrapper that changes them."
                )
            self._recording.cut_and_go_on(frames, ended.tolist())
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

    def _find_copies(self) -> None:
        """Find what the slots are copies of, beneath wrappers and on a mesh."""
        layout = self.layout
        if not (self.frozen or layout is None or layout.is_fully_addressable):
            raise ValueError(
                "RecordVideo: expected the devices of one process, to which the states of the "
                f"slots are sent; got {self.env} on those of several. Pass `frozen=True`, or "
                "record a batch of one process."
            )
        self._layers, self._base = _peeled(self.env)
        copies = getattr(self._base, "copies", None)
        self._copied: AnyEnv | None = copies.env if copies else None

    @property
    def _sends(self) -> bool:
        """Whether programs send states to the host, which draws them."""
        return self._copied is not None and not self.frozen

    @property
    def _draws(self) -> bool:
        """Whether slots are drawn after each call from Python."""
        return self._copied is None and not self.frozen

    def _write_if_outside(self, arguments: Any) -> None:
        if not is_traced(arguments):
            self._recording.write()

    def _drawn(self, state: Any) -> list[Frame]:
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
            form, first = self._form(self._taken(state))
            _send(partial(self._recording.begin_with, form), first)
        return obs, state

    def _step_all(self, state: Any, actions: Any) -> Any:
        stepped = super()._step_all(state, actions)
        if self._sends:
            last, ended = self._last_states(state, actions)
            form, last = self._form(last)
            _, first = self._form(self._taken(stepped[1]))
            _send(partial(self._recording.go_on_with, form), last, ended, first)
        return stepped

    def _form(self, states: Any) -> tuple[Form, list[Any]]:
        return Form.take_apart(cast(AnyEnv, self._copied).render, states)

    def _taken(self, state: Any) -> Any:
        """The states of the recorded slots, as their environments have them."""
        state = state.env_state
        for _ in self._layers:
            state = state.env_state
        taken = take_slots(state, np.asarray(self._recording.slots))
        return clone_keys(taken)  # the step of the batch uses them too, on purpose

    def _last_states(self, state: Any, actions: Any) -> tuple[Any, jax.Array]:
        """Their states after this step, before any reset, and which episodes it ended."""
        for layer in self._layers:
            actions = layer.action(actions)
        actions = conform(self._base.action_space, actions, "RecordVideo.step")
        actions = take_slots(actions, np.asarray(self._recording.slots))
        step = jax.vmap(partial(step_slot, cast(AnyEnv, self._copied)))
        _, last, *_, ended = step(self._taken(state), actions)
        return last, ended


def _peeled(env: BatchedEnv[Any, Any]) -> tuple[list[BatchedWrapper[Any, Any]], Any]:
    """The wrappers around a batch, the outermost first, and the batch as it is on one device."""
    layers: list[BatchedWrapper[Any, Any]] = []
    while isinstance(env, AroundBatch):
        if isinstance(env, BatchedWrapper):
            layers.append(env)
        env = env.env
    return layers, env


def _slots(slots: Any, n_slots: int, grid: tuple[int, int] | None) -> list[int]:
    if slots is None:
        slots = grid[0] * grid[1] if grid else 1
    if not isinstance(slots, Sequence | np.ndarray):
        slots = range(require_count("RecordVideo: expected slots", slots))
    try:
        chosen = [operator.index(slot) for slot in cast(Any, slots)]
    except TypeError:
        raise TypeError(f"RecordVideo: expected slots to be integers; got {slots!r}.") from None
    if any(not -n_slots <= slot < n_slots for slot in chosen):
        raise ValueError(
            f"RecordVideo: expected slots of a batch of {n_slots}; got {[*chosen]}. Record fewer."
        )
    chosen = [slot % n_slots for slot in chosen]
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"RecordVideo: expected slots, each once; got {chosen}.")
    if grid and len(chosen) > grid[0] * grid[1]:
        raise ValueError(
            f"RecordVideo: expected up to {grid[0] * grid[1]} slots for a grid of {grid}; got "
            f"{len(chosen)}."
        )
    return chosen


def _grid(grid: Any) -> tuple[int, int]:
    if not isinstance(grid, Sequence) or len(cast(Any, grid)) != 2:
        raise TypeError(f"RecordVideo: expected grid to be (rows, columns); got {grid!r}.")
    rows, cols = cast(Any, grid)
    expected = "RecordVideo: expected rows and columns"
    return require_count(expected, rows), require_count(expected, cols)


def _send(collect: Callable[..., None], *tree: Any) -> None:
    tree = _not_mapped(jax.lax.stop_gradient(tree))
    io_callback(collect, None, *tree, ordered=True)


@custom_vmap
def _not_mapped(tree: Any) -> Any:
    return tree


@_not_mapped.def_vmap
def _refuse_vmap(*_: Any) -> NoReturn:
    raise RuntimeError(
        "RecordVideo cannot be mapped with `jax.vmap`: a video is of one course of episodes. Map "
        "the batch without it, or record from `jit` and `scan`."
    )
