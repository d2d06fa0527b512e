"""Which slots of a batch are recorded, and what is inside the wrappers of the batch."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from envrax._checks.counts import require_count
from envrax.batched_env import AnyBatch
from envrax.compiled_batch import CompiledBatch
from envrax.env import AnyEnv
from envrax.wrappers.vector.base import BatchedWrapper
from envrax.wrappers.vector.forwarding import ForwardingBatch


def unwrap(env: AnyBatch) -> tuple[list[BatchedWrapper[Any, Any]], AnyBatch]:
    """The wrappers of a batch, the outermost first, and the batch inside them, unsharded."""
    layers: list[BatchedWrapper[Any, Any]] = []
    while isinstance(env, ForwardingBatch):
        if isinstance(env, BatchedWrapper):
            layers.append(env)
        env = env.env
    return layers, env


def slot_env(batch: AnyBatch) -> AnyEnv | None:
    """The environment of every slot; None for a batch that renders its slots itself."""
    return batch.copied_env if isinstance(batch, CompiledBatch) else None


def slot_indices(slots: Any, n_slots: int, grid: tuple[int, int] | None) -> list[int]:
    """
    The indices of the slots to record, from the arguments of `RecordVideo`.

    Raises
    ------
    ValueError
        If a slot does not exist, or there are more than the grid holds.
    """
    grid_size = None
    if grid is not None:
        rows, cols = (require_count("RecordVideo: expected rows and columns", n) for n in grid)
        grid_size = rows * cols
    if slots is None:
        slots = grid_size or 1
    if not isinstance(slots, Sequence | np.ndarray):
        slots = range(require_count("RecordVideo: expected slots", slots))
    try:
        indices: list[int] = [range(n_slots)[slot] for slot in cast(Any, slots)]
    except IndexError:
        raise ValueError(
            f"RecordVideo: expected slots of a batch of {n_slots}; got {[*slots]}. Record fewer."
        ) from None
    if grid_size and len(indices) > grid_size:
        raise ValueError(
            f"RecordVideo: expected up to {grid_size} slots for a grid of {grid}; got "
            f"{len(indices)}."
        )
    return indices
