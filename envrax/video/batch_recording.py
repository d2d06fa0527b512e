"""What `RecordVideo` records of a batch: states on the host, rendered when files are written."""

import atexit
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.keys import is_key
from envrax.video.continuity import same_state
from envrax.video.encoder import free_number, open_video
from envrax.video.forks import forget_in_forks
from envrax.video.frames import tile_frames

Frame = Callable[[], np.ndarray]
Row = list[Frame]  # what a film shows at one time: a frame of each of its slots
GAP = 2  # pixels between the slots of a grid; even, like the sides of most videos


class SlotRenderer:
    """
    Renders the states of slots that arrive on the host as lists of arrays, with keys as integers.

    Parameters
    ----------
    render : callable
        Renders one state.
    states : pytree of jax.Array
        The states of some slots, which may be traced.
    """

    def __init__(self, render: Callable[[Any], np.ndarray], states: Any) -> None:
        leaves: list[Any]
        leaves, self._structure = jax.tree.flatten(states)
        self._impls = [jax.random.key_impl(x) if is_key(x) else None for x in leaves]
        self._render = render

    def arrays(self, states: Any) -> list[jax.Array]:
        """The states of some slots as a list of arrays."""
        pairs = zip(jax.tree.leaves(states), self._impls, strict=True)
        return [x if impl is None else jax.random.key_data(x) for x, impl in pairs]

    def frame(self, arrays: list[np.ndarray]) -> Frame:
        """The frame of one slot, not rendered yet."""
        return partial(self._draw, arrays)

    def _draw(self, arrays: list[np.ndarray]) -> np.ndarray:
        with jax.ensure_compile_time_eval():  # the caller may be tracing
            leaves: list[Any] = [
                x if impl is None else jax.random.wrap_key_data(x, impl=impl)
                for x, impl in zip(map(jnp.asarray, arrays), self._impls, strict=True)
            ]
            # A copy, because the next slot may be drawn on the same array.
            return np.array(self._render(jax.tree.unflatten(self._structure, leaves)))


class Recording:
    """
    Collects the frames of K slots, and writes them to files.

    A film shows one slot, or with a grid all of them. `add_step` does not render: JAX calls it
    while a program runs, and rendering could then wait for JAX forever.

    Parameters
    ----------
    slots : list of int
        The slots.
    folder : Path
        The folder of the files.
    fps : float
        Frames per second.
    grid : tuple of int, optional
        Rows and columns, for one file with all slots.
    labels : sequence, optional
        A label for each slot of the grid.

    Attributes
    ----------
    last : Any
        What the last step returned, to tell whether the next one continues it: the state, or the
        arrays of each slot. None before the first step.
    """

    def __init__(
        self,
        slots: list[int],
        folder: Path,
        fps: float,
        grid: tuple[int, int] | None,
        labels: Sequence[Any] | None = None,
    ) -> None:
        self.slots = slots
        self.folder = folder
        self.fps = fps
        self.grid = grid
        self.labels = labels
        # The places in `slots` of what each film shows.
        self._shown = [[*range(len(slots))]] if grid else [[k] for k in range(len(slots))]
        self._at_exit = False
        self.forget()
        forget_in_forks(self)

    def forget(self) -> None:
        """Drop all films, as in a forked process: they are written by the other one."""
        self.last: Any = None
        self._lock = threading.RLock()  # callbacks come in threads of XLA
        self._running: list[list[Row]] = [[] for _ in self._shown]
        self._complete: list[tuple[str, list[Row]]] = []
        self._exit_without_writing()

    def begins(self, continues: Sequence[bool]) -> list[int]:
        """
        The places of the slots whose films begin with the next step.

        Parameters
        ----------
        continues : sequence of bool
            Whether the step continues the last one in each slot.
        """
        films = zip(self._running, self._shown, strict=True)
        new = [places for film, places in films if not (film and all(continues[k] for k in places))]
        return [k for places in new for k in places]

    def add_step(
        self, first: dict[int, Frame], after: Sequence[Frame | None], ended: Sequence[bool]
    ) -> None:
        """
        Add the frames of a step.

        Parameters
        ----------
        first : dict
            The frame before the step of each place in `begins`.
        after : sequence of callable or None
            The frame after the step, before any auto-reset, of each slot; None if it is not known.
        ended : sequence of bool
            Whether the step ended the episode of each slot.
        """
        with self._lock:
            self._write_at_exit()
            for number, places in enumerate(self._shown):
                if places[0] in first:
                    self._end(number)
                    self._running[number] = [[first[k] for k in places]]
                row = [frame for k in places if (frame := after[k]) is not None]
                if row:
                    self._running[number].append(row)
                if ended[places[0]] and not self.grid:
                    self._end(number)

    def receive(self, renderer: SlotRenderer, states: Sequence[Any], ended: Any) -> None:
        """
        Collect the states that a program sends in a step.

        Parameters
        ----------
        renderer : SlotRenderer
            Renders the states.
        states : sequence
            The arrays of three states: before the step, after it, and after any auto-reset.
        ended : array of bool
            Whether the step ended the episode of each slot.
        """
        before, after, last = map(self._by_slot, states)
        with self._lock:
            known = self.last or [None] * len(self.slots)
            begins = self.begins([*map(same_state, before, known)])
            first = {k: renderer.frame(before[k]) for k in begins}
            self.add_step(first, [*map(renderer.frame, after)], np.asarray(ended).tolist())
            self.last = last

    def write(self) -> None:
        """
        Render and write the videos of complete episodes.

        A video whose frames raise an error is abandoned, and the others are written. Then the first
        error is raised. An interrupted video is written by the next call.
        """
        errors: list[Exception] = []
        while True:
            with self._lock:
                if not self._complete:
                    break
                prefix, rows = self._complete.pop(0)
            try:
                self._write_one(prefix, rows)
            except Exception as error:
                errors.append(error)
            except BaseException:
                with self._lock:
                    self._complete.insert(0, (prefix, rows))
                raise
        if errors:
            errors[0].add_note(f"RecordVideo: videos that were abandoned: {len(errors)}.")
            raise errors[0]

    def end(self) -> None:
        """End all running episodes."""
        with self._lock:
            for number in range(len(self._shown)):
                self._end(number)
            self.last = None

    def finish(self) -> None:
        """Write all videos; running episodes end here."""
        self.end()
        self.write()
        self._exit_without_writing()

    def _by_slot(self, arrays: Sequence[Any]) -> list[list[np.ndarray]]:
        numpy = [np.asarray(x) for x in arrays]
        # Copies, because the program reuses the buffers, and one slot must not hold those of all.
        return [[np.array(x[k]) for x in numpy] for k in range(len(self.slots))]

    def _end(self, number: int) -> None:
        if self._running[number]:
            k = self._shown[number][0]
            prefix = "grid" if self.grid else f"slot_{self.slots[k]}-episode"
            self._complete.append((prefix, self._running[number]))
            self._running[number] = []

    def _write_at_exit(self) -> None:
        if not self._at_exit:  # not in `__del__`, which may run within a trace
            atexit.register(self.finish)
            self._at_exit = True

    def _exit_without_writing(self) -> None:
        if self._at_exit:
            atexit.unregister(self.finish)
            self._at_exit = False

    def _write_one(self, prefix: str, rows: list[Row]) -> None:
        pictures = map(self._picture, rows)
        first = next(pictures)
        writer = open_video(self.folder, free_number(self.folder, prefix), self.fps, first, prefix)
        writer.complete(pictures)

    def _picture(self, row: Row) -> np.ndarray:
        images = [frame() for frame in row]
        return tile_frames(images, *self.grid, GAP, self.labels) if self.grid else images[0]

    def __reduce__(self) -> tuple[Any, ...]:  # a copy starts empty, and writes its own files
        return Recording, (self.slots, self.folder, self.fps, self.grid, self.labels)
