"""Environments that break a rule on spaces or observations."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from broken_envs.drift import Drift, DriftState
from envrax import Box, Dict, Discrete, Space


class SpaceIsAnInt(Drift):
    @property
    def action_space(self) -> Any:
        return 3


class SpaceIsNeverTheSame(Drift):
    bounds: Iterator[float] = itertools.cycle((20.0, 30.0))

    @property
    def observation_space(self) -> Any:
        return Box(-20.0, next(self.bounds), (2,))


class Computed:
    """No property, so that its values are those of the trace in which it is read."""

    def __get__(self, *_: Any) -> Any:
        return Box(-20.0, jnp.float32(20.0), (2,))


class SpaceIsComputedInTheTrace(Drift):
    observation_space: Any = Computed()  # pyright: ignore[reportIncompatibleMethodOverride]


@dataclass(frozen=True)
class Crooked(Space):
    shape: Any = ()
    dtype: Any = np.int32

    def sample(self, rng: jax.Array, mask: Any = None) -> Any:
        return jnp.int32(7)

    def contains(self, x: Any) -> Any:
        return x in Discrete(3)

    def batch(self, n: int) -> Space:
        return Discrete(3).batch(n)


class SampleLiesOutside(Drift):
    @property
    def action_space(self) -> Any:
        return Crooked()


class Generous(Crooked):
    def sample(self, rng: jax.Array, mask: Any = None) -> Any:
        return jax.random.randint(rng, (), 0, 31, jnp.int32) // 10  # one in 31 is a 3

    def contains(self, x: Any) -> Any:
        return Discrete(3).contains(x)


class SampleRarelyLiesOutside(Drift):
    @property
    def action_space(self) -> Any:
        return Generous()


class Forgetful(Crooked):
    def sample(self, rng: jax.Array, mask: Any = None) -> Any:
        return jnp.int32(np.random.randint(2**31))

    def contains(self, x: Any) -> Any:
        return True


class SampleIgnoresTheKey(Drift):
    @property
    def action_space(self) -> Any:
        return Forgetful()


class Touchy(Crooked):
    def contains(self, x: Any) -> Any:
        return x >= 0


class ContainsRaises(Drift):
    @property
    def action_space(self) -> Any:
        return Touchy()


class Literal(Crooked):
    def contains(self, x: Any) -> Any:
        return x is not None and x >= 0


class ContainsRaisesForATextWithinADict(Drift):
    @property
    def action_space(self) -> Any:
        return Dict(move=Literal())

    def step(self, state: DriftState, action: Any) -> Any:
        return super().step(state, action["move"])


class Shapeless(Crooked):
    def contains(self, x: Any) -> Any:
        return isinstance(x, np.ndarray | jax.Array) and jnp.all(x >= 0)


class ContainsTakesArraysOfOtherShapes(Drift):
    @property
    def action_space(self) -> Any:
        return Shapeless()


class Concrete(Crooked):
    def contains(self, x: Any) -> Any:
        return isinstance(x, np.ndarray | jax.Array) and x.shape == () and bool(x >= 0)


class ContainsCannotBeTraced(Drift):
    @property
    def action_space(self) -> Any:
        return Concrete()


class ObservationIsAnInteger(Drift):
    def observe(self, state: DriftState) -> Any:
        return state.place.astype(jnp.int32)


class ObservationHasAnotherShape(Drift):
    def observe(self, state: DriftState) -> Any:
        return state.place[None]


class ObservationLeavesTheBox(Drift):
    """Only towards the end of an episode."""

    def observe(self, state: DriftState) -> Any:
        return jnp.where(state.step == 5, 100.0, state.place)


class FirstObservationLeavesTheBox(Drift):
    """Only where a time limit ended the last episode, and so not after a made-up end."""

    def reset_after(self, state: DriftState) -> Any:
        obs, first = super().reset_after(state)
        return jnp.where(state.step == self.config.max_steps, 100.0, obs), first


class ObservationLacksAKey(Drift):
    @property
    def observation_space(self) -> Any:
        return Dict(place=Box(-20.0, 20.0, (2,)), time=Box(0.0, 9.0, ()))

    def observe(self, state: DriftState) -> Any:
        return {"place": state.place}


BROKEN: dict[str, list[Any]] = {
    "spaces_are_legal": [
        SpaceIsAnInt,
        SpaceIsNeverTheSame,
        SpaceIsComputedInTheTrace,
        SampleLiesOutside,
        SampleRarelyLiesOutside,
        SampleIgnoresTheKey,
        ContainsRaises,
        ContainsRaisesForATextWithinADict,
        ContainsTakesArraysOfOtherShapes,
        ContainsCannotBeTraced,
    ],
    "observations_are_in_the_space": [
        ObservationIsAnInteger,
        ObservationHasAnotherShape,
        ObservationLeavesTheBox,
        FirstObservationLeavesTheBox,
        ObservationLacksAKey,
    ],
}
