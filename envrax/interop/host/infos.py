"""`InfoKeys`: the infos of a simulator that a batch passes on, with fixed shapes and dtypes."""

from collections.abc import Mapping
from typing import Any, cast

import jax
import numpy as np

from envrax.interop.host.arrays import Mask, copy_as
from envrax.spaces.base import canonical, is_mapping, kind

Column = tuple[Any, Mask]  # the values of all slots, and the slots that gave one


class InfoKeys:
    """
    Numeric infos that every slot gives at every step.

    The first value of each fixes its shape and dtype.

    Parameters
    ----------
    names : sequence of str
        Their names.
    n : int
        Number of slots.
    who : str
        The function that the user called, for messages.

    Raises
    ------
    TypeError
        If `names` is a str.
    """

    def __init__(self, names: Any, n: int, who: str) -> None:
        if isinstance(names, str):
            raise TypeError(
                f"{who}: expected `info_keys` to be a tuple of names; got {names!r}. "
                'Write `info_keys=("lives",)`.'
            )
        self.names: tuple[str, ...] = tuple(names)
        self.n = n
        self.who = who
        self._types: dict[str, jax.ShapeDtypeStruct] = {}

    def read(self, infos: Any, ended: Mask | None = None) -> dict[str, Any]:
        """
        The infos of a step.

        Parameters
        ----------
        infos : mapping
            The simulator's infos: arrays with a leading axis of slots, and Gymnasium's masks.
        ended : array of bool, optional
            Slots that were reset in the same step, whose infos of the step are in
            `infos["final_info"]`.

        Raises
        ------
        ValueError
            If a slot lacks one of the names, or gives it in another form than before.
        """
        return {name: self._read(infos, name, ended) for name in self.names}

    def _read(self, infos: Mapping[str, Any], name: str, ended: Mask | None) -> Any:
        column = _column(infos, name, self.n)
        if ended is not None and ended.any():
            column = _merge(column, _column(infos.get("final_info", {}), name, self.n), ended)
        if column is None or not column[1].all():
            slots = "no slot" if column is None else f"slots {np.flatnonzero(column[1]).tolist()}"
            known = sorted(k for k in infos if not k.startswith("_"))
            raise ValueError(
                f"{self.who}: expected the simulator to give a number or an array {name!r} in the "
                f"infos of every slot at every step; got it from {slots}. Its infos are: "
                f"{', '.join(known) or 'none'}. Where an episode ended, in SAME_STEP mode, it must "
                'be in `infos["final_info"]`.'
            )
        values = column[0]
        first_type = jax.ShapeDtypeStruct(values.shape, canonical(values.dtype))
        type_ = self._types.setdefault(name, first_type)
        return copy_as(type_, values, f"{self.who}: info {name!r}")


def _merge(column: Column | None, final: Column | None, ended: Mask) -> Column | None:
    """The values of `final` in the slots that ended, those of `column` in the others."""
    if final is None:
        return None
    final_values, final_given = final
    values, given = column or (np.zeros_like(final_values), np.zeros(len(ended), bool))
    where = ended.reshape(-1, *[1] * (values.ndim - 1))
    merged = cast(Any, np).where(where, final_values, values)
    return merged, np.where(ended, final_given, given)


def _column(infos: Any, name: str, n: int) -> Column | None:
    """The values of an info; None if it is not a numeric array."""
    if not is_mapping(infos) or infos.get(name) is None or is_mapping(infos[name]):
        return None
    values = np.asarray(infos[name])
    if values.shape[:1] != (n,) or kind(values.dtype) == "other":
        return None
    given = infos.get(f"_{name}")
    return values, np.ones(n, bool) if given is None else np.asarray(given, bool)
