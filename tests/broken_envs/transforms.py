"""Environments that break a rule on `jit`, `vmap`, `scan` or `grad`."""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from broken_envs.drift import F32, Drift, DriftState, Edited


class AsksATracer(Drift):
    def step(self, state: DriftState, action: Any) -> Any:
        if action == 1:
            state = state.replace(extra=state.extra + 1)
        return super().step(state, action)


class DoneIsAPythonBool(Edited):
    def edit(self, obs: Any, state: Any, reward: Any, done: Any, info: Any) -> Any:
        return obs, state, reward, bool(done), info


class RewardIsAPythonFloat(Edited):
    def edit(self, obs: Any, state: Any, reward: Any, done: Any, info: Any) -> Any:
        return obs, state, float(reward), done, info


class IsAnotherWhenCompiled(Drift):
    def next_extra(self, extra: Any) -> Any:
        return extra + 1 if isinstance(extra, Tracer) else extra


@jax.tree_util.register_pytree_node_class
class Static:
    """A number that JAX takes for a part of the structure."""

    def __init__(self, number: int) -> None:
        self.number = number

    def tree_flatten(self) -> Any:
        return (), self.number

    @classmethod
    def tree_unflatten(cls, number: int, _: Any) -> "Static":
        return cls(number)


class CompilesEveryStep(Drift):
    def extra(self) -> Any:
        return Static(0)

    def next_extra(self, extra: Any) -> Any:
        return Static(extra.number + 1)


class CannotBeBatched(Drift):
    def next_extra(self, extra: Any) -> Any:
        like = jax.ShapeDtypeStruct((), F32)
        return jax.pure_callback(lambda x: np.asarray(x), like, extra)


class BatchIsMixed(Drift):
    """A step that depends on the other slots of a batch, by a rule of its own for `vmap`."""

    mixed: Any  # what a batch returns instead

    def next_extra(self, extra: Any) -> Any:
        own = jax.custom_batching.custom_vmap(lambda x: x)
        own.def_vmap(lambda size, batched, x: (self.mixed(x), True))
        return own(extra)

    def step(self, state: DriftState, action: Any) -> Any:
        obs, state, reward, *rest = super().step(state.replace(extra=state.place[0]), action)
        return obs, state, state.extra, *rest


class EverySlotIsSlot0(BatchIsMixed):
    def mixed(self, x: Any) -> Any:
        return jnp.broadcast_to(x[0], x.shape)


class OnlySlot0IsRewarded(BatchIsMixed):
    def mixed(self, x: Any) -> Any:
        return jnp.where(jnp.arange(len(x), dtype=jnp.int32) == 0, x, F32(0))


class EverySlotIsTheMean(BatchIsMixed):
    def mixed(self, x: Any) -> Any:
        return jnp.broadcast_to(x.mean(0), x.shape)


class IsAnotherInAScan(Drift):
    def next_extra(self, extra: Any) -> Any:
        scanned = any(frame.function == "scan" for frame in inspect.stack(0))
        return extra + 1 if scanned else extra


class GradientIsNaN(Edited):
    def edit(self, obs: Any, state: Any, reward: Any, *rest: Any) -> Any:
        return obs, state, reward + jnp.sqrt(state.extra), *rest


class GradientIsInfiniteLater(Drift):
    def extra(self) -> Any:
        return F32(2)

    def next_extra(self, extra: Any) -> Any:
        return jnp.maximum(extra - 1, 0)

    def step(self, state: DriftState, action: Any) -> Any:
        obs, new, reward, *rest = super().step(state, action)
        return obs, new, reward + jnp.sqrt(state.extra), *rest


BROKEN: dict[str, list[Any]] = {
    "traces_under_jit": [AsksATracer, DoneIsAPythonBool, RewardIsAPythonFloat],
    "jit_agrees": [IsAnotherWhenCompiled],
    "compiles_once": [CompilesEveryStep],
    "vmap_agrees": [CannotBeBatched, EverySlotIsSlot0, OnlySlot0IsRewarded, EverySlotIsTheMean],
    "scan_agrees": [IsAnotherInAScan],
    "gradients_are_finite": [GradientIsNaN, GradientIsInfiniteLater],
}
