"""`HostState` and `Clock`: a token for the position of a simulator, and checks of it."""

import itertools
import weakref
from typing import Any, NamedTuple

import numpy as np

_RUNS = itertools.count()
_HIGHEST = 2**31 - 1
# By identity: simulators of users need not be hashable.
_OWNED: dict[int, tuple[Any, "Clock"]] = {}


class HostState(NamedTuple):
    """
    A token for the last step of a simulator.

    Attributes
    ----------
    run : int32 scalar
        Number of the reset, counted over all simulators of the process.
    step : int32 scalar
        Number of steps since then.
    """

    run: Any
    step: Any


class Clock:
    """
    The position of a simulator.

    Attributes
    ----------
    closed : bool
        Whether the simulator was closed.
    """

    def __init__(self) -> None:
        self._now: tuple[int, int] | None = None
        self.closed = False

    def own(self, simulator: Any, who: str) -> None:
        """
        Register this clock as the only one that steps the simulator.

        Raises
        ------
        ValueError
            If another clock, which is not closed, owns it.
        """
        place = id(simulator)
        found, owner = _OWNED.get(place, (None, self))
        if found is not None and found() is simulator and not owner.closed:
            raise ValueError(
                f"{who}: expected a simulator that no other batch steps; got a "
                f"{type(simulator).__name__} that one steps already. Use that batch, or build "
                "another simulator."
            )
        _OWNED[place] = weakref.ref(simulator, lambda _: _OWNED.pop(place, None)), self

    def stop(self) -> None:
        """Forget the position, before a call that may fail and at `close`."""
        self._now = None

    def begin(self) -> HostState:
        """The state after a reset."""
        return self._at(next(_RUNS) & _HIGHEST, 0)

    def go_on(self, state: HostState) -> HostState:
        """The state after a step from `state`."""
        return self._at(int(state.run), (int(state.step) + 1) & _HIGHEST)

    def _at(self, run: int, step: int) -> HostState:
        self._now = run, step
        return HostState(np.int32(run), np.int32(step))

    def require_open(self, who: str) -> None:
        """Raise an error for a closed simulator."""
        if self.closed:
            raise RuntimeError(
                f"{who}: expected an open simulator; got one that was closed. Build another one."
            )

    def require_now(self, state: Any, who: str) -> HostState:
        """
        The state, if it is the current one.

        Raises
        ------
        TypeError
            If it is not a state of a simulator.
        RuntimeError
            If the simulator was stepped since, or the state is another simulator's.
        """
        self.require_open(who)
        if not isinstance(state, HostState):
            raise TypeError(
                f"{who}: expected the state that `reset` or `step` returned; got "
                f"{type(state).__name__}. Pass it on as it is."
            )
        run, step = int(np.asarray(state.run)), int(np.asarray(state.step))
        if self._now is None:
            raise RuntimeError(
                f"{who}: expected a simulator that was reset; got one that was not, or whose last "
                "step failed. Call `reset`."
            )
        if (run, step) != self._now:
            got = f"that of step {step}" if run == self._now[0] else "one of another run"
            raise RuntimeError(
                f"{who}: expected the state of the last step, number {self._now[1]}; got {got}. "
                "The simulator is on the host and cannot go back: pass the newest state, or call "
                "`reset`."
            )
        return HostState(run, step)
