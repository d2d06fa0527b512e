"""`HostState` and `Clock`: a token for the position of a simulator, and checks of it."""

import itertools
import weakref
from typing import Any, NamedTuple

_RUNS = itertools.count()
# By identity: simulators of users need not be hashable.
_OWNED: dict[int, tuple[Any, "Clock"]] = {}


class HostState(NamedTuple):
    """
    A token for the last step of a simulator.

    Attributes
    ----------
    run : int
        Number of the reset, counted over all simulators of the process.
    step : int
        Number of steps since then.
    """

    run: int
    step: int


class Clock:
    """
    The position of a simulator.

    Attributes
    ----------
    closed : bool
        Whether the simulator was closed.
    """

    def __init__(self) -> None:
        self._now: HostState | None = None
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
        self._now = HostState(next(_RUNS), 0)
        return self._now

    def go_on(self, state: HostState) -> HostState:
        """The state after a step from `state`."""
        self._now = HostState(state.run, state.step + 1)
        return self._now

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
        if self._now is None:
            raise RuntimeError(
                f"{who}: expected a simulator that was reset; got one that was not, or whose last "
                "step failed. Call `reset`."
            )
        if state != self._now:
            same_run = state.run == self._now.run
            got = f"that of step {state.step}" if same_run else "one of another run"
            raise RuntimeError(
                f"{who}: expected the state of the last step, number {self._now.step}; got {got}. "
                "The simulator is on the host and cannot go back: pass the newest state, or call "
                "`reset`."
            )
        return self._now
