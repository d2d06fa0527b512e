"""Infos of envrax as infos of Gymnasium."""

from typing import Any, cast

import jax
import numpy as np


def is_episode(name: str, value: Any) -> bool:
    """Whether an info is that of `RecordEpisodeStatistics`, valid on the last step only."""
    return name == "episode" and isinstance(value, dict) and {"r", "l"} <= value.keys()


def has_ended(episode: Any, done: Any) -> Any:
    """Where an episode of these statistics ended. Inside an `EpisodicLife`, they count games."""
    return done & (np.asarray(episode["l"]) > 0)


def single_info(info: dict[str, Any], *, ended: bool) -> dict[str, Any]:
    """The info of one environment, with scalars in place of arrays without axes."""
    kept = {k: v for k, v in info.items() if not is_episode(k, v) or has_ended(v, ended)}
    return jax.tree.map(_scalar, kept)


def with_slot_masks(infos: dict[str, Any], where: np.ndarray[Any, Any]) -> dict[str, Any]:
    """
    Infos of many slots, each `name` with a mask `_name` of the slots where it is valid.

    A tuple, a list or another container is an object array with one in each slot, as Gymnasium's
    `SyncVectorEnv` has it, and None where it is not valid.

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
        converted[name] = _by_slot(value, where)
        converted[f"_{name}"] = where.copy()
    return converted


def _by_slot(value: Any, where: np.ndarray[Any, Any]) -> Any:
    if isinstance(value, dict | np.ndarray):
        return cast(Any, value)
    by_slot = np.full(where.shape, None, object)
    leaves = jax.tree.leaves(value)
    structure = cast(Any, jax.tree.structure(value))
    for slot in np.flatnonzero(where):
        by_slot[slot] = structure.unflatten([_scalar(x[slot]) for x in leaves])
    return by_slot


def slot_infos(
    infos: dict[str, Any], where: np.ndarray[Any, Any], done: np.ndarray[Any, Any]
) -> dict[str, Any]:
    """
    Infos of many slots, valid in the slots `where`; statistics where an episode ended.

    An info that is valid in no slot is left out, as Gymnasium does.
    """
    statistics = {k: v for k, v in infos.items() if is_episode(k, v)}
    step_infos = {k: v for k, v in infos.items() if k not in statistics}
    converted = with_slot_masks(step_infos, where) if where.any() else {}
    if done.any():
        for k, v in statistics.items():
            ended = has_ended(v, done)
            converted |= with_slot_masks({k: v}, ended) if ended.any() else {}
    return converted


def vector_infos(
    infos: dict[str, Any], done: np.ndarray[Any, Any], final_obs: list[Any], final_mask: Any = None
) -> dict[str, Any]:
    """
    Infos of a batch as a `gymnasium.vector.VectorEnv` with same-step auto-reset gives them.

    Where an episode ended, the info of the step is in `final_info`, with the mask of the last state
    as `action_mask` if there are masks; and its observation, of which the argument has one for each
    of these slots, is in `final_obs`.
    """
    converted = slot_infos(infos, ~done, done)
    if not done.any():
        return converted
    final_obs_by_slot = np.full(done.shape, None, object)
    for slot, obs in zip(np.flatnonzero(done), final_obs, strict=True):
        final_obs_by_slot[slot] = obs
    final_info = jax.tree.map(np.copy, slot_infos(infos, done, done))
    if final_mask is not None:
        final_info |= with_slot_masks({"action_mask": final_mask}, done)
    return converted | {
        "final_obs": final_obs_by_slot,
        "_final_obs": done.copy(),
        "final_info": final_info,
        "_final_info": done.copy(),
    }


def slot_info(infos: dict[str, Any], slot: int) -> dict[str, Any]:
    """The infos of one slot."""
    return jax.tree.map(lambda x: _scalar(x[slot]), infos) if infos else {}


def _scalar(x: Any) -> Any:
    if np.ndim(x):
        return np.array(x)
    # Gymnasium does not take NumPy's bools for numbers, and would keep them as objects.
    return bool(x) if np.asarray(x).dtype == np.bool_ else np.asarray(x)[()]
