"""`VectorSimulator`: what a library's simulators must be able to do, to be a batch of envrax."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import jax
import numpy as np

from envrax._jax.types import output_types
from envrax.spaces import Dict, Space

Types = dict[str, jax.ShapeDtypeStruct]
_OWN_INFOS = {"terminated", "truncated", "final_obs", "final_mask"}


class VectorSimulator(ABC):
    """
    Simulators of one library, a slot each, that are stepped in one call; `HostBatch` plays them.

    It knows nothing of JAX. The arrays that it returns, of any dtype, are valid until its next
    call: the batch copies them to the dtypes of the spaces. `HostBatch` keeps the keys, the seeds,
    the numbers of steps and auto-reset; a subclass translates what its library says.

    Attributes
    ----------
    who : str
        The function that the user called, for messages.
    n : int
        Number of slots.
    name : str
        The name for logs.
    observation_space, action_space : Space
        The spaces of one slot.
    owned : object
        What no other batch may step: the library's own object, or this one.
    resets_itself : bool, default False
        Whether `step` begins the next episode of the slots that ended. If not, `begin_where` does.
    has_last : bool, default True
        Whether `step` gives the last observation of an episode, if it resets itself.
    base_seed : bool, default False
        Whether one seed begins all slots, whose generators go on from there; else each episode of a
        slot has a seed of its own.
    is_asynchronous : bool, default False
        Whether it works in other processes or threads. After a call that raised it is lost then:
        nobody knows which results were read.
    has_mask : bool, default False
        Whether `masks` gives masks of legal actions.
    can_render : bool, default False
        Whether `draw` draws a slot.
    on_device : bool, default False
        Whether its arrays lie on a device of JAX that is no CPU, and stay there.
    """

    who: str
    n: int
    name: str
    observation_space: Space
    action_space: Space
    resets_itself = False
    has_last = True
    base_seed = False
    is_asynchronous = False
    has_mask = False
    can_render = False
    on_device = False

    @property
    def owned(self) -> Any:
        return self

    @cached_property
    def obs_types(self) -> Any:
        """Shapes and dtypes of the observations of all slots, as the batch returns them."""
        return output_types(self.observation_space.batch(self.n).sample)

    @cached_property
    def info_types(self) -> Types:
        """The infos that every step gives, by name, of all slots: known before any step."""
        return {}

    @abstractmethod
    def begin(self, seeds: Any) -> Any:
        """Begin an episode in every slot by its seed, or by the one `base_seed`; observations."""

    def begin_where(self, mask: Any, seeds: Any) -> Any:
        """
        Begin an episode in the slots of a mask, and return observations of all slots.

        Those of the mask count. Without seeds, None, the generators of a `base_seed` go on.
        """
        raise NotImplementedError

    def require_begin_where(self) -> None:
        """Raise an error unless `begin_where` works, before anything is called."""
        raise NotImplementedError(
            f"{self.who}: expected simulators that begin episodes in some of their slots; got "
            f"{self.name}, which begins all at once. Call `reset`."
        )

    @abstractmethod
    def step(self, actions: Any, last: bool) -> tuple[Any, Any, Any, Any, dict[str, Any], Any]:
        """
        Take one step in every slot with legal actions, copies in the dtypes that JAX has.

        Returns
        -------
        obs, reward, terminated, truncated, info, last_obs
            Of all slots. `last_obs` has the observations before any reset; it is read only if
            `last`, from a simulator that resets itself.
        """

    def array(self, x: Any, straight: bool = False) -> Any:
        """One of its arrays for NumPy; or a copy for JAX, if `on_device` and called `straight`."""
        return np.asarray(x)

    def masks(self) -> Any:
        """The masks of the actions that are legal now; None for parts that have no masks."""
        raise NotImplementedError

    def last_masks(self) -> Any:
        """Those of the states to which the last step led, before any reset in it."""
        return self.masks()

    def draw(self, slot: int) -> Any:
        """An image of one slot."""
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027
        """Close the simulators."""

    def __getstate__(self) -> dict[str, Any]:
        if self.is_asynchronous:  # half a copy would close the pipes of its workers
            raise TypeError(
                f"{self.who}: expected simulators of this process to copy or pickle; got "
                f"{self.name}, which works in others. Build another batch."
            )
        return vars(self)


def types_of(spaces: dict[str, Space], n: int) -> Types:
    """Types of the infos of `n` slots that are in these spaces."""
    return output_types(Dict(spaces).batch(n).sample) if spaces else {}


def require_info_names(who: str, argument: str, names: Iterable[str]) -> None:
    """
    Check the names of the infos that a user wants.

    Raises
    ------
    TypeError
        If it is one text.
    ValueError
        If the batch gives an info of that name itself.
    """
    if isinstance(names, str):
        raise TypeError(
            f"{who}: expected `{argument}` to be a tuple of names; got {names!r}. "
            f'Write `{argument}=("lives",)`.'
        )
    reserved = _OWN_INFOS & {*names}
    if reserved:
        raise ValueError(
            f"{who}: expected infos without names that it gives itself; got {sorted(reserved)}. "
            "Leave them out."
        )
