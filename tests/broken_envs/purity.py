"""Environments that are no pure functions."""

from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from broken_envs.drift import Drift, DriftState


class TableIsFilledInATrace(Drift):
    @cached_property
    def table(self) -> jax.Array:
        return jnp.arange(3.0)

    def next_extra(self, extra: Any) -> Any:
        return self.table[0]


class KeepsATracer(Drift):
    kept: list[Any] = []  # noqa: RUF012

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.kept.clear()  # what another test left

    def next_extra(self, extra: Any) -> Any:
        self.kept.append(extra)
        return extra


class StepSetsAnAttribute(Drift):
    def next_extra(self, extra: Any) -> Any:
        self.last = extra
        return extra


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


class Simulator:
    """It lives on the host, and is in one episode at a time."""

    def begin(self, place: Any) -> Any:
        self.place = np.asarray(place)
        return self.place

    def move(self, push: Any) -> Any:
        self.place = np.clip(self.place + np.asarray(push), -20, 20)
        return self.place


class CallsTheHost(Drift):
    """It steps a simulator that is not in the state, and draws nothing in a step."""

    def __init__(self) -> None:
        super().__init__()
        self.simulator = Simulator()

    def reset(self, rng: jax.Array) -> Any:
        _, state = super().reset(rng)
        state = state.replace(place=self.call(self.simulator.begin, state.place, state.place))
        return self.observe(state), state

    def step(self, state: DriftState, action: Any) -> Any:
        _, new, _, *rest = super().step(state, action)
        push = jnp.asarray(action).astype(jnp.float32)
        place = self.call(self.simulator.move, state.place, push)
        new = new.replace(rng=state.rng, place=place)
        return self.observe(new), new, place[0], *rest

    def call(self, function: Any, like: Any, x: Any) -> Any:
        return jax.pure_callback(function, like, x, vmap_method="sequential")


class CallsTheHostInOrder(CallsTheHost):
    """The same by calls that JAX keeps in order."""

    def call(self, function: Any, like: Any, x: Any) -> Any:
        return io_callback(function, like, x, ordered=True)


BROKEN: dict[str, list[Any]] = {
    "no_tracer_leaks": [TableIsFilledInATrace, KeepsATracer, StepSetsAnAttribute],
    "nothing_is_kept_on_the_host": [CallsTheHostInOrder],
    "inputs_are_left_alone": [StateIsEdited, CallsAreCounted],
    "same_key_same_episode": [NoiseIsFromNumPy, CallsTheHost],
}
