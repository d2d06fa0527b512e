"""Frames that `RecordVideo` has recorded of a batch, held on the host until they are rendered."""

import atexit
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.keys import is_key
from envrax.video.encoder import free_number, open_video
from envrax.video.frames import tile_frames

Frame = Callable[[], np.ndarray]
GAP = 2  # pixels between the slots of a grid; even, as the sides of most films


class SlotRenderer:
    """
    `render` for the state of one slot, given as a list of arrays, in which keys are integers.

    Parameters
    ----------
    render : callable
        Draws one state.
    states : pytree of jax.Array
        The states of some slots, or tracers of them.
    """

    def __init__(self, render: Callable[[Any], np.ndarray], states: Any) -> None:
        leaves: list[Any]
        leaves, self._structure = jax.tree.flatten(states)
        self._impls = [jax.random.key_impl(x) if is_key(x) else None for x in leaves]
        self._render = render

    def arrays(self, states: Any) -> list[jax.Array]:
        """The arrays of the states of some slots."""
        pairs = zip(jax.tree.leaves(states), self._impls, strict=True)
        return [x if impl is None else jax.random.key_data(x) for x, impl in pairs]

    def frames(
        self, arrays: Sequence[jax.Array], needed: Sequence[bool] | None = None
    ) -> list[Frame]:
        """One frame per slot, not rendered yet."""
        numpy = [np.asarray(x) for x in arrays]
        needed = [True] * len(numpy[0]) if needed is None else needed
        # Copies, since the program reuses the buffers.
        copies = [[x[k].copy() for x in numpy] if used else [] for k, used in enumerate(needed)]
        return [partial(self._draw, copy) for copy in copies]

    def _draw(self, arrays: list[np.ndarray]) -> np.ndarray:
        with jax.ensure_compile_time_eval():  # the caller may be tracing
            leaves: list[Any] = [
                x if impl is None else jax.random.wrap_key_data(x, impl=impl)
                for x, impl in zip(map(jnp.asarray, arrays), self._impls, strict=True)
            ]
            return self._render(jax.tree.unflatten(self._structure, leaves))


class Recording:
    """
    The frames of K slots, not rendered yet, and the files that they go to.

    `begin` and `go_on` only collect: JAX calls them while a program runs, when nothing may wait
    for JAX.

    Parameters
    ----------
    slots : list of int
        The slots.
    folder : Path
        Where the files go.
    fps : float
        Frames per second.
    grid : tuple of int, optional
        Rows and columns, for one file of all slots.
    labels : sequence, optional
        One for each slot of the grid.
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
        self._lock = threading.RLock()  # callbacks come in threads of XLA
        self._running: list[list[Frame]] = [[] for _ in slots]
        self._complete: list[tuple[str, list[list[Frame]]]] = []

    def begin(self, first: Sequence[Frame]) -> None:
        """All slots begin an episode."""
        with self._lock:
            self._cut()
            self._running = [[frame] for frame in first]
            atexit.unregister(self.finish)  # not by `__del__`: that may run within a trace
            atexit.register(self.finish)

    def go_on(
        self, ended: Sequence[bool], new: Sequence[Frame], last: Sequence[Frame] | None = None
    ) -> None:
        """
        Add the frames of a step.

        Parameters
        ----------
        ended : sequence of bool
            Whether the step ended the episode of each slot.
        new : sequence of callable
            Frames after any auto-reset.
        last : sequence of callable, optional
            Frames before any auto-reset, where they are known.
        """
        with self._lock:
            for k, over in enumerate(ended):
                if last is not None:
                    self._running[k].append(last[k])
                if over and not self.grid:
                    self._complete.append((self._prefix(k), [self._running[k]]))
                    self._running[k] = []
                # In a grid a frame more would put the slot behind its neighbours.
                if last is None or (over and not self.grid):
                    self._running[k].append(new[k])

    def sent(self, renderer: SlotRenderer, states: Sequence[Any], ended: Any = None) -> None:
        """`begin` with arrays of the states; or `go_on`, with those before and after any reset."""
        if ended is None:
            return self.begin(renderer.frames(states[0]))
        over: list[bool] = np.asarray(ended).tolist()
        return self.go_on(over, renderer.frames(states[1], over), renderer.frames(states[0]))

    def write(self) -> None:
        """Render and write the films that are complete."""
        while True:
            with self._lock:
                if not self._complete:
                    return
                prefix, slots = self._complete.pop(0)
            try:
                self._write_one(prefix, slots)
            except KeyboardInterrupt:
                with self._lock:
                    self._complete.insert(0, (prefix, slots))
                raise

    def finish(self) -> None:
        """Write everything; running episodes are cut short."""
        atexit.unregister(self.finish)
        with self._lock:
            self._cut()
        self.write()

    def _cut(self) -> None:
        if self.grid and any(self._running):
            self._complete.append(("grid", self._running))
        elif not self.grid:
            # A single frame is the start of the next episode, not a film.
            runs = enumerate(self._running)
            self._complete += [(self._prefix(k), [run]) for k, run in runs if len(run) > 1]
        self._running = [[] for _ in self.slots]

    def _prefix(self, k: int) -> str:
        return f"slot_{self.slots[k]}-episode"

    def _write_one(self, prefix: str, slots: list[list[Frame]]) -> None:
        pictures = self._pictures(slots)
        number = free_number(self.folder, prefix)
        film = open_video(self.folder, number, self.fps, next(pictures), prefix)
        film.complete(pictures)

    def _pictures(self, slots: list[list[Frame]]) -> Iterator[np.ndarray]:
        for row in zip(*slots, strict=True):
            drawn = [frame() for frame in row]
            yield tile_frames(drawn, *self.grid, GAP, self.labels) if self.grid else drawn[0]

    def __reduce__(self) -> tuple[Any, ...]:  # a copy starts empty, and writes its own files
        return Recording, (self.slots, self.folder, self.fps, self.grid, self.labels)
