"""What `RecordVideo` records of a batch: states on the host, rendered when files are written."""

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

    def frames(
        self, arrays: Sequence[jax.Array], needed: Sequence[bool] | None = None
    ) -> list[Frame]:
        """One frame per slot, not rendered yet. Frames that are not needed hold no state."""
        numpy = [np.asarray(x) for x in arrays]
        needed = [True] * len(numpy[0]) if needed is None else needed
        # Copies, because the program reuses the buffers.
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
    Collects the frames of K slots, and writes them to files.

    `begin` and `add_step` do not render: JAX calls them while a program runs, and rendering could
    then wait for JAX forever.

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
        """Start an episode in all slots, with the first frame of each."""
        with self._lock:
            self._end_episodes()
            self._running = [[frame] for frame in first]
            # Not in `__del__`, which may run within a trace.
            atexit.unregister(self.finish)
            atexit.register(self.finish)

    def add_step(
        self, ended: Sequence[bool], new: Sequence[Frame], last: Sequence[Frame] | None = None
    ) -> None:
        """
        Add the frames of a step.

        Parameters
        ----------
        ended : sequence of bool
            Whether the step ended the episode of each slot.
        new : sequence of callable
            The frames after any auto-reset.
        last : sequence of callable, optional
            The frames before any auto-reset, if they are known.
        """
        with self._lock:
            for k, has_ended in enumerate(ended):
                if last is not None:
                    self._running[k].append(last[k])
                if has_ended and not self.grid:
                    self._complete.append((self._prefix(k), [self._running[k]]))
                    self._running[k] = []
                # In a grid, an extra frame would make the slot lag behind its neighbours.
                if last is None or (has_ended and not self.grid):
                    self._running[k].append(new[k])

    def receive(self, renderer: SlotRenderer, states: Sequence[Any], ended: Any = None) -> None:
        """
        Collect the states that a program sends after a reset or a step.

        Parameters
        ----------
        renderer : SlotRenderer
            Renders the states.
        states : sequence
            The arrays of the states. After a step, two: from before and after any auto-reset.
        ended : array of bool, optional
            Whether the step ended the episode of each slot; None after a reset.
        """
        if ended is None:
            return self.begin(renderer.frames(states[0]))
        has_ended: list[bool] = np.asarray(ended).tolist()
        new = renderer.frames(states[1], has_ended)
        return self.add_step(has_ended, new, renderer.frames(states[0]))

    def write(self) -> None:
        """Render and write the videos of complete episodes."""
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
        """Write all videos; running episodes end here."""
        atexit.unregister(self.finish)
        with self._lock:
            self._end_episodes()
        self.write()

    def _end_episodes(self) -> None:
        if self.grid and any(self._running):
            self._complete.append(("grid", self._running))
        elif not self.grid:
            # A single frame is only the start of the next episode.
            episodes = enumerate(self._running)
            self._complete += [(self._prefix(k), [x]) for k, x in episodes if len(x) > 1]
        self._running = [[] for _ in self.slots]

    def _prefix(self, k: int) -> str:
        return f"slot_{self.slots[k]}-episode"

    def _write_one(self, prefix: str, slots: list[list[Frame]]) -> None:
        pictures = self._pictures(slots)
        number = free_number(self.folder, prefix)
        writer = open_video(self.folder, number, self.fps, next(pictures), prefix)
        writer.complete(pictures)

    def _pictures(self, slots: list[list[Frame]]) -> Iterator[np.ndarray]:
        for row in zip(*slots, strict=True):
            images = [frame() for frame in row]
            yield tile_frames(images, *self.grid, GAP, self.labels) if self.grid else images[0]

    def __reduce__(self) -> tuple[Any, ...]:  # a copy starts empty, and writes its own files
        return Recording, (self.slots, self.folder, self.fps, self.grid, self.labels)
