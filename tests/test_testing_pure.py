"""`check_env` finds what is no pure function: keys, edits, and what transformations change."""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from broken_envs import F32, Drift, DriftState, Edited, one_by_default, the_one_finding
from jax.core import Tracer

# --- inputs_are_left_alone, same_key_same_episode -------------------------------------------------


class StateIsEdited(Drift):
    def step(self, state: DriftState, action: Any) -> Any:
        _, new, *rest = super().step(state, action)
        vars(state).update(vars(new))
        return self.observe(state), state, *rest


class CallsAreCounted(Drift):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def step(self, state: DriftState, action: Any) -> Any:
        self.calls += 1
        return super().step(state, action)


class NoiseIsFromNumPy(Drift):
    def next_extra(self, extra: Any) -> Any:
        return jnp.float32(np.random.random())


# --- key_moves_on, keys_are_used_once, both_kinds_of_keys -----------------------------------------


class ResetKeepsTheKey(Drift):
    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return obs, state.replace(rng=rng)


class ResetIgnoresTheKey(Drift):
    def reset(self, rng: jax.Array) -> Any:
        return super().reset(jax.random.key(0))


class StepKeepsTheKey(Drift):
    def step(self, state: DriftState, action: Any) -> Any:
        obs, new, *rest = super().step(state, action)
        return obs, new.replace(rng=state.rng), *rest


class KeyIsUsedTwice(Drift):
    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return obs, state.replace(extra=jax.random.uniform(rng, (), F32))


class KeysMustBeTyped(Drift):
    def reset(self, rng: jax.Array) -> Any:
        return super().reset(jax.random.wrap_key_data(jax.random.key_data(rng)))


# --- traces_under_jit and what follows from it ----------------------------------------------------


class AsksATracer(Drift):
    def step(self, state: DriftState, action: Any) -> Any:
        if action == 1:
            state = state.replace(extra=state.extra + 1)
        return super().step(state, action)


class KeepsATracer(Drift):
    kept: list[Any] = []  # noqa: RUF012

    def next_extra(self, extra: Any) -> Any:
        self.kept.append(extra)
        return extra


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


class IsAnotherInAScan(Drift):
    def next_extra(self, extra: Any) -> Any:
        scanned = any(frame.function == "scan" for frame in inspect.stack(0))
        return extra + 1 if scanned else extra


class GradientIsNaN(Edited):
    def edit(self, obs: Any, state: Any, reward: Any, *rest: Any) -> Any:
        return obs, state, reward + jnp.sqrt(state.extra), *rest


BROKEN: dict[str, list[type[Drift]]] = {
    "inputs_are_left_alone": [StateIsEdited, CallsAreCounted],
    "same_key_same_episode": [NoiseIsFromNumPy],
    "traces_under_jit": [AsksATracer],
    "key_moves_on": [ResetKeepsTheKey, ResetIgnoresTheKey, StepKeepsTheKey],
    "keys_are_used_once": [KeyIsUsedTwice],
    "both_kinds_of_keys": [KeysMustBeTyped],
    "no_tracer_leaks": [KeepsATracer],
    "jit_agrees": [IsAnotherWhenCompiled],
    "compiles_once": [CompilesEveryStep],
    "vmap_agrees": [CannotBeBatched],
    "scan_agrees": [IsAnotherInAScan],
    "gradients_are_finite": [GradientIsNaN],
}


@pytest.mark.parametrize(("env_class", "rule"), one_by_default(BROKEN))
def test_a_broken_environment_gets_its_one_finding(env_class: Any, rule: str) -> None:
    assert str(the_one_finding(env_class, rule)).startswith(env_class.__name__)
