"""Infos of envrax as infos of Gymnasium."""

from typing import Any, cast

import jax
import numpy as np


def is_episode(name: str, value: Any) -> bool:
    """Whether an info is that of `RecordEpisodeStatistics`, valid on the last step only."""
    return name == "episode" and isinstance(value, dict) and {"r", "l"} <= value.keys()


def single_info(info: dict[str, Any], *, ended: bool) -> dict[str, Any]:
    """The info of one environment, with scalars in place of arrays without axes."""
    kept = {k: v for k, v in info.items() if ended or not is_episode(k, v)}
    return jax.tree.map(_scalar, kept)


def with_slot_masks(infos: dict[str, Any], where: np.ndarray[Any, Any]) -> dict[str, Any]:
    """
    Infos of many slots, each `name` with a mask `_name` of the slots where it is valid.

    Raises
    ------
    ValueError
        If the environment has an info with a name that Gymnasium reserves.
    """
    converted: dict[str, Any] = {}
    for name, value in infos.items():
        if name in ("final_obs", "final_info") or f"_{name}" in infos:
            raise ValueError(
                f"to_gymnasium_vec: expected infos without names that Gymnasium uses; got {name!r} "
                f"among {sorted(infos)}. Rename them in the environment."
            )
        if isinstance(value, dict):
            value = with_slot_masks(cast(dict[str, Any], value), where)
        converted[name] = value
        converted[f"_{name}"] = where.copy()
    return converted


def vector_infos(
    infos: dict[str, Any], done: np.ndarray[Any, Any], final_obs: Any
) -> dict[str, Any]:
    """
    Infos of a batch as a `gymnasium.vector.VectorEnv` with same-step auto-reset gives them.

    Where an episode ended, the info of the step is in `final_info`, and its observation in
    `final_obs`.
    """
    step_infos = {k: v for k, v in infos.items() if not is_episode(k, v)}
    converted = with_slot_masks(step_infos, ~done)
    if not done.any():
        return converted
    statistics = {k: v for k, v in infos.items() if is_episode(k, v)}
    converted |= with_slot_masks(statistics, done)
    final_obs_by_slot = np.full(done.shape, None, object)
    slots = np.flatnonzero(done)
    for slot, row in zip(slots, _rows(final_obs, slots), strict=True):
        final_obs_by_slot[slot] = row
    return converted | {
        "final_obs": final_obs_by_slot,
        "_final_obs": done.copy(),
        "final_info": with_slot_masks(jax.tree.map(np.copy, infos), done),
        "_final_info": done.copy(),
    }


def _rows(tree: Any, slots: np.ndarray[Any, Any]) -> list[Any]:
    """The observations of some slots, each a copy."""
    if isinstance(tree, np.ndarray):
        return list(tree[slots])  # rows of a copy
    return [jax.tree.map(lambda x, i=slot: x[i].copy(), tree) for slot in slots]


def slot_info(infos: dict[str, Any], slot: int) -> dict[str, Any]:
    """The infos of one slot."""
    return jax.tree.map(lambda x: _scalar(x[slot]), infos) if infos else {}


def _scalar(x: Any) -> Any:
    if np.ndim(x):
        return np.array(x)
    # Gymnasium does not take NumPy's bools for numbers, and would keep them as objects.
    return bool(x) if np.asarray(x).dtype == np.bool_ else np.asarray(x)[()]
