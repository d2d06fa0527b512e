"""`Film`: what is recorded of a slot, or of a grid of slots; `Schedule`: when it is recorded."""

from collections.abc import Callable
from dataclasses import dataclass

from envrax.video.slot_frames import Frame

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
