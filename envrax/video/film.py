"""`Film`: what is recorded of a slot, or of a grid of slots; when, and how it is rendered."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.keys import is_key

Frame = Callable[[], np.ndarray]
Row = list[Frame]  # what a film shows at one time: a frame of each of its slots


@dataclass(frozen=True)
class Schedule:
    """
    When a film begins, and how long it is.

    Attributes
    ----------
    episode_trigger : callable, optional
        Whether a film begins with the episode of this number.
    step_trigger : callable, optional
        Whether a film begins with the states after the step of this number.
    length : int
        Steps of a film, also beyond the end of an episode. 0 lets it end with the episode.
    """

    episode_trigger: Callable[[int], bool] | None
    step_trigger: Callable[[int], bool] | None
    length: int

    def __post_init__(self) -> None:
        for name, trigger in vars(self).items():
            if name.endswith("trigger") and not (trigger is None or callable(trigger)):
                raise TypeError(
                    f"RecordVideo: expected {name} to be a function of a number; got {trigger!r}. "
                    "For every tenth, write `lambda n: n % 10 == 0`."
                )

    def begins_with_episode(self, number: int) -> bool:
        if self.episode_trigger is None:
            return self.step_trigger is None
        return bool(self.episode_trigger(number))

    def begins_after_step(self, number: int) -> bool:
        return self.step_trigger is not None and bool(self.step_trigger(number))


class Film:
    """
    What is recorded of one slot, or of all slots of a grid.

    Parameters
    ----------
    places : list of int
        The places, among the recorded slots, of those that the film shows.

    Attributes
    ----------
    rows : list
        What it shows so far, one row a step. Empty while nothing is recorded.
    episode : int
        The number of the last episode that began, from 0; -1 before the first.
    in_episode : bool
        Whether that episode goes on.
    number : int
        The number of the episode of the first row.
    """

    def __init__(self, places: list[int]) -> None:
        self.places = places
        self.rows: list[Row] = []
        self.episode = -1
        self.in_episode = False
        self.number = 0

    def start(self, first: Row) -> None:
        """Begin to record, in this episode or before the next."""
        self.rows = [first]
        self.number = self.episode if self.in_episode else self.episode + 1

    def is_complete(self, length: int) -> bool:
        """Whether it has all its rows."""
        return len(self.rows) > length if length else not self.in_episode


def same_state(state: Any, other: Any) -> bool:
    """
    Whether two states are equal, bit for bit.

    A film goes on while each step is given the state that the last step returned. A copy of that
    state is as good; an array that was donated in the meantime is equal to nothing but itself.
    """
    if jax.tree.structure(state) != jax.tree.structure(other):
        return False
    return all(map(_same, jax.tree.leaves(state), jax.tree.leaves(other)))


def _same(x: Any, y: Any) -> bool:
    if x is y:
        return True
    if any(isinstance(array, jax.Array) and array.is_deleted() for array in (x, y)):
        return False
    return _bits(x) == _bits(y)


def _bits(x: Any) -> bytes:
    return np.asarray(jax.random.key_data(x) if is_key(x) else x).tobytes()


def draw_now(render: Callable[..., np.ndarray], *args: Any) -> Frame:
    """A frame that is rendered now; an error is raised when the video is written."""
    try:
        image = np.array(render(*args))  # a copy, because the next slot may be drawn on the same
    except Exception as error:
        return partial(_raise, error)
    return lambda: image


def _raise(error: Exception) -> Any:
    raise error


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
