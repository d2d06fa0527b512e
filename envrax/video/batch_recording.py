"""What `RecordVideo` records of a batch: states on the host, rendered when files are written."""

import atexit
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envrax._jax.types import is_inside_jit
from envrax.video.encoder import open_video
from envrax.video.film import Film, Frame, Row, Schedule, SlotRenderer, same_state
from envrax.video.forks import forget_in_forks
from envrax.video.frames import tile_frames

GAP = 2  # pixels between the slots of a grid; even, like the sides of most videos
Begun = tuple[Film, bool, Row]


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
    schedule : Schedule
        When films begin, and how long they are.

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
        labels: Sequence[Any] | None,
        schedule: Schedule,
    ) -> None:
        self.slots = slots
        self.folder = folder
        self.fps = fps
        self.grid = grid
        self.labels = labels
        self.schedule = schedule
        self._at_exit = False
        self.forget()
        forget_in_forks(self)

    def forget(self) -> None:
        """Drop all films, as in a forked process: they are written by the other one."""
        self.last: Any = None
        self._lock = threading.RLock()  # callbacks come in threads of XLA
        places = range(len(self.slots))
        self._films = [Film([*places])] if self.grid else [Film([k]) for k in places]
        self._steps = 0
        self._complete: list[tuple[str, int, list[Row]]] = []
        self._first_numbers: dict[str, int] = {}  # in the names of files, of episode 0
        self._errors: list[Exception] = []
        self._exit_without_writing()

    def begins(self, continues: Sequence[bool], before: Callable[[int], Frame]) -> list[Begun]:
        """
        The films in which the next step begins an episode.

        Parameters
        ----------
        continues : sequence of bool
            Whether the step continues the last one in each slot.
        before : callable
            The frame of a place before the step. Called only for what is recorded.

        Returns
        -------
        list of tuple
            The film, whether the step continues the last one in it, and the first row of what is
            recorded from here on, empty if nothing is.
        """
        begun: list[Begun] = []
        for film in self._films:
            goes_on = all(continues[k] for k in film.places)
            if goes_on and film.in_episode:
                continue
            is_recorded = goes_on and bool(film.rows)
            records = not is_recorded and self.schedule.begins_with_episode(film.episode + 1)
            begun.append((film, goes_on, [before(k) for k in film.places] if records else []))
        return begun

    def add_step(
        self,
        begun: list[Begun],
        after: Callable[[int], Frame | None],
        ended: Sequence[bool],
        last: Callable[[int], Frame],
    ) -> None:
        """
        Add the frames of a step.

        Parameters
        ----------
        begun : list of tuple
            What `begins` returned before the step.
        after : callable
            The frame of a place after the step, before any auto-reset; None if it is not known.
        ended : sequence of bool
            Whether the step ended the episode of each slot.
        last : callable
            The frame of a place after the step and any auto-reset.
        """
        with self._lock:
            self._write_at_exit()
            self._steps += 1
            starts = self.schedule.begins_after_step(self._steps)
            for film, goes_on, first in begun:
                if not goes_on:
                    self._end(film)
                film.episode += 1
                film.in_episode = True
                if first:
                    film.start(first)
            for film in self._films:
                if film.rows:
                    row = [frame for k in film.places if (frame := after(k)) is not None]
                    film.rows += [row] if row else []
                if ended[film.places[0]] and not self.grid:
                    film.in_episode = False
                if film.is_complete(self.schedule.length):
                    self._end(film)
                if starts and not film.rows:
                    film.start([last(k) for k in film.places])

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
            begun = self.begins(
                [*map(same_state, before, known)], lambda k: renderer.frame(before[k])
            )
            self.add_step(
                begun,
                lambda k: renderer.frame(after[k]),
                np.asarray(ended).tolist(),
                lambda k: renderer.frame(last[k]),
            )
            self.last = last

    def write(self) -> None:
        """
        Render and write the videos of complete episodes.

        A video whose frames raise an error is abandoned, and the others are written. Then the first
        error is raised. An interrupted video is written by the next call.
        """
        self._write_complete()
        errors, self._errors = self._errors, []
        if errors:
            errors[0].add_note(f"RecordVideo: videos that were abandoned: {len(errors)}.")
            raise errors[0]

    def write_before_call(self) -> None:
        """`write`, unless JAX traces the call."""
        if (self._complete or self._errors) and not is_inside_jit():
            self.write()

    def _write_complete(self) -> None:
        while True:
            with self._lock:
                if not self._complete:
                    break
                video = self._complete.pop(0)
            try:
                self._write_one(*video)
            except Exception as error:
                self._errors.append(error)
            except BaseException:
                with self._lock:
                    self._complete.insert(0, video)
                raise

    def end(self) -> None:
        """End all running episodes."""
        with self._lock:
            for film in self._films:
                self._end(film)
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

    def _end(self, film: Film) -> None:
        if film.rows:
            slot = self.slots[film.places[0]]
            prefix = "grid" if self.grid else f"slot_{slot}-episode"
            self._complete.append((prefix, film.number, film.rows))
            film.rows = []

    def _write_at_exit(self) -> None:
        if not self._at_exit:  # not in `__del__`, which may run within a trace
            atexit.register(self.finish)
            self._at_exit = True

    def _exit_without_writing(self) -> None:
        if self._at_exit:
            atexit.unregister(self.finish)
            self._at_exit = False

    def _write_one(self, prefix: str, episode: int, rows: list[Row]) -> None:
        pictures = map(self._picture, rows)
        first = next(pictures)
        where = self.folder, self._first_numbers, episode
        open_video(*where, self.fps, first, prefix).complete(pictures)

    def _picture(self, row: Row) -> np.ndarray:
        images = [frame() for frame in row]
        return tile_frames(images, *self.grid, GAP, self.labels) if self.grid else images[0]

    def __reduce__(self) -> tuple[Any, ...]:  # a copy starts empty, and writes its own files
        return Recording, (self.slots, self.folder, self.fps, self.grid, self.labels, self.schedule)
