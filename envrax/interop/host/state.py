"""`HostState`: the state of a simulator, as a token; `CurrentState`: which token is the newest."""

import itertools
import weakref
from typing import Any, NamedTuple

_RUN_NUMBERS = itertools.count()
# By `id` of the simulator, which its owner keeps alive: simulators of users need not be hashable.
# An owner that was collected is not in it.
_OWNERS: "weakref.WeakValueDictionary[int, CurrentState]" = weakref.WeakValueDictionary()


class HostState(NamedTuple):
    """
    A token for the last step of a simulator.

    Attributes
    ----------
    run : int
        Number of the reset, counted over all simulators of the process.
    step : int
        Number of steps since then.
    first : array of bool
        Whether the next step is the first of an episode, for each slot.
    """

    run: int
    step: int
    first: Any


class CurrentState:
    """
    The newest state of a simulator.

    Attributes
    ----------
    closed : bool
        Whether the simulator was closed.
    lost : bool
        Whether a call was cut short, whose results a later call would take for its own.
    """

    def __init__(self) -> None:
        self._state: HostState | None = None
        self._simulator: Any = None
        self.closed = False
        self.lost = False

    def own(self, simulator: Any, who: str) -> None:
        """
        Register the batch of this state as the only one that steps the simulator.

        Raises
        ------
        ValueError
            If another batch, which exists and is not closed, owns it.
        """
        owner = _OWNERS.get(id(simulator))
        if owner is not None and not owner.closed:
            raise ValueError(
                f"{who}: expected a simulator that no other batch steps; got a "
                f"{type(simulator).__name__} that one steps already. Use that batch, or build "
                "another simulator."
            )
        self._simulator = simulator
        _OWNERS[id(simulator)] = self

    def forget(self) -> None:
        """Forget the state, before a call that may fail and at `close`."""
        self._state = None

    def after_reset(self, first: Any) -> HostState:
        """The state after a reset."""
        self._state = HostState(next(_RUN_NUMBERS), 0, first)
        return self._state

    def after_step(self, state: HostState, first: Any) -> HostState:
        """The state after a step from `state`."""
        self._state = HostState(state.run, state.step + 1, first)
        return self._state

    def require_open(self, who: str) -> None:
        """Raise an error for a simulator that was closed, or whose last call was cut short."""
        if self.lost and not self.closed:
            raise RuntimeError(
                f"{who}: expected a simulator whose calls all returned; got one that was "
                "interrupted in a call, or that lost a worker. Close it, and build another one."
            )
        if self.closed:
            raise RuntimeError(
                f"{who}: expected an open simulator; got one that was closed. Build another one."
            )

    def require_newest(self, state: Any, who: str) -> HostState:
        """
        The state, if it is the newest.

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
        if self._state is None:
            raise RuntimeError(
                f"{who}: expected a simulator that was reset; got one that was not, or whose last "
                "step failed. Call `reset`."
            )
        if state[:2] != self._state[:2]:
            same_run = state.run == self._state.run
            got = f"that of step {state.step}" if same_run else "one of another run"
            raise RuntimeError(
                f"{who}: expected the state of the last step, number {self._state.step}; got "
                f"{got}. The simulator is on the host and cannot go back: pass the newest state, "
                "or call `reset`."
            )
        return self._state
