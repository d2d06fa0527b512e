"""Frames of slots, and how they are rendered: at once, or later from states on the host."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.keys import is_key

Frame = Callable[[], np.ndarray]


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
