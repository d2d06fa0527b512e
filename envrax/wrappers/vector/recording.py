"""What `RecordVideo` has seen of a batch, kept on the host until it is drawn."""

import atexit
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.wrappers.pictures import tile_frames
from envrax.wrappers.video_file import free_number, open_film

Frame = Callable[[], np.ndarray]


@dataclass(frozen=True)
class Form:
    """How the state of one slot is put together of arrays, and drawn."""

    render: Callable[[Any], np.ndarray]
    structure: Any
    impls: tuple[Any, ...]  # of typed keys; None elsewhere

    @classmethod
    def take_apart(cls, render: Callable[[Any], np.ndarray], tree: Any) -> "tuple[Form, list[Any]]":
        """The form of a state, and its arrays, keys as integers."""
        leaves: list[Any] = jax.tree.leaves(tree)
        typed = [jnp.issubdtype(x.dtype, jax.dtypes.prng_key) for x in leaves]
        pairs = list(zip(leaves, typed, strict=True))
        impls = tuple(jax.random.key_impl(x) if is_key else None for x, is_key in pairs)
        arrays = [jax.random.key_data(x) if is_key else x for x, is_key in pairs]
        return cls(render, jax.tree.structure(tree), impls), arrays

    def draw(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        with jax.ensure_compile_time_eval():  # someone else may be tracing
            leaves: list[Any] = [
                x if impl is None else jax.random.wrap_key_data(x, impl=impl)
                for x, impl in zip(map(jnp.asarray, arrays), self.impls, strict=True)
            ]
            return self.render(jax.tree.unflatten(self.structure, leaves))


class Recording:
    """
    The frames of K slots, not drawn yet, and the files that they go to.

    `begin`, `go_on` and their twins for arrays only collect: JAX calls them while a program runs,
    when nothing may wait for JAX.

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
    """

    def __init__(
        self, slots: list[int], folder: Path, fps: float, grid: tuple[int, int] | None
    ) -> None:
        self.slots, self.folder, self.fps, self.grid = slots, folder, fps, grid
        self._lock = threading.RLock()  # callbacks come in threads of XLA
        self._running: list[list[Frame]] = [[] for _ in slots]
        self._complete: list[tuple[str, list[list[Frame]]]] = []

    def begin(self, first: Sequence[Frame]) -> None:
        """All slots begin an episode."""
        with self._lock:
            self._cut()
            self._running = [[frame] for frame in first]
            atexit.unregister(self.finish)  # not when it is garbage: that may be within a trace
            atexit.register(self.finish)

    def go_on(self, last: Sequence[Frame], ended: Sequence[bool], first: Sequence[Frame]) -> None:
        """A step: its own frames; where it ended an episode, the first one of the next."""
        with self._lock:
            for k, (slot, over) in enumerate(zip(self.slots, ended, strict=True)):
                self._running[k].append(last[k])
                if over and not self.grid:
                    self._complete.append((_prefix(slot), [self._running[k]]))
                    self._running[k] = []
                if over:
                    self._running[k].append(first[k])

    def cut_and_go_on(self, new: Sequence[Frame], ended: Sequence[bool]) -> None:
        """A step of which only the frames after an auto-reset are known."""
        with self._lock:
            for k, (slot, over) in enumerate(zip(self.slots, ended, strict=True)):
                if over and not self.grid:
                    self._complete.append((_prefix(slot), [self._running[k]]))
                    self._running[k] = []
                self._running[k].append(new[k])

    def begin_with(self, form: Form, first: Sequence[jax.Array]) -> None:
        self.begin(self._frames(form, first))

    def go_on_with(
        self, form: Form, last: Sequence[jax.Array], ended: jax.Array, first: Sequence[jax.Array]
    ) -> None:
        over: list[bool] = np.asarray(ended).tolist()
        self.go_on(self._frames(form, last), over, self._frames(form, first, over))

    def _frames(
        self, form: Form, arrays: Sequence[jax.Array], needed: Sequence[bool] | None = None
    ) -> list[Frame]:
        numpy = [np.asarray(x) for x in arrays]
        needed = needed or [True] * len(self.slots)
        # Copies, since the buffers are those of the program.
        copies = [[x[k].copy() for x in numpy] if needed[k] else [] for k in range(len(needed))]
        return [_Drawn(form, copy) for copy in copies]

    def write(self) -> None:
        """Draw and write what is complete."""
        while True:
            with self._lock:
                if not self._complete:
                    return
                prefix, slots = self._complete.pop(0)
            self._write_one(prefix, slots)

    def finish(self) -> None:
        """Write everything; what is running is cut short."""
        atexit.unregister(self.finish)
        with self._lock:
            self._cut()
        self.write()

    def _cut(self) -> None:
        begun = [(slot, run) for slot, run in zip(self.slots, self._running, strict=True) if run]
        if self.grid and begun:
            self._complete.append(("grid", self._running))
        elif not self.grid:
            # A frame that only begins the next episode is no film.
            self._complete += [(_prefix(slot), [run]) for slot, run in begun if len(run) > 1]
        self._running = [[] for _ in self.slots]

    def _write_one(self, prefix: str, slots: list[list[Frame]]) -> None:
        pictures = self._pictures(slots)
        number = free_number(self.folder, prefix)
        film = open_film(self.folder, number, self.fps, next(pictures), prefix)
        try:
            for picture in pictures:
                film.add(picture)
        except BaseException:
            film.discard()
            raise
        film.close()

    def _pictures(self, slots: list[list[Frame]]) -> Iterator[np.ndarray]:
        drawn: list[np.ndarray] = []
        for row in itertools.zip_longest(*slots):
            # A slot with fewer frames than the others shows its last one to the end.
            new = [frame() if frame else drawn[k] for k, frame in enumerate(row)]
            drawn = new
            yield tile_frames(drawn, *self.grid) if self.grid else drawn[0]

    def __reduce__(self) -> tuple[Any, ...]:  # a copy has seen nothing, and writes its own files
        return Recording, (self.slots, self.folder, self.fps, self.grid)


@dataclass(frozen=True)
class _Drawn:
    form: Form
    arrays: list[np.ndarray]

    def __call__(self) -> np.ndarray:
        return self.form.draw(self.arrays)


def _prefix(slot: int) -> str:
    return f"slot_{slot}-episode"
