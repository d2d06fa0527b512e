"""A small suite of a user: checked by pyright and by mypy, both strict."""

import dataclasses
from typing import Any

import chex  # pyright: ignore[reportMissingTypeStubs]
import jax
import jax.numpy as jnp

from envrax import (
    Box,
    Dict,
    Discrete,
    EnvConfig,
    EnvSpec,
    EnvState,
    EnvSuite,
    EpisodicEnv,
    evaluate,
    make_vec,
    register_suite,
    rollout,
    start,
)
from envrax.multi_agent import MultiAgentEnv


@chex.dataclass  # pyright: ignore[reportUnknownMemberType]
class WalkState(EnvState):
    """The place of the walker, a float32 scalar."""

    place: jax.Array


@chex.dataclass  # pyright: ignore[reportUnknownMemberType]
class WalkConfig(EnvConfig):
    """`stride`: the length of a step. `rewards`: by the name of an end."""

    stride: float = 0.5
    rewards: dict[str, float] = dataclasses.field(
        default_factory=lambda: {"left": 0.0, "right": 1.0}
    )


class Walk(EpisodicEnv[Box, Discrete, WalkState, WalkConfig]):
    """Walk along a line to one of its ends."""

    @property
    def observation_space(self) -> Box:
        return Box(low=-2.0, high=2.0, shape=(1,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def begin(self, key: jax.Array, **episode: jax.Array) -> WalkState:
        return WalkState(place=jnp.float32(0), **episode)

    def advance(self, state: WalkState, action: Any) -> tuple[WalkState, jax.Array, jax.Array]:
        place = state.place + self.config.stride * (2.0 * action - 1.0)
        reward = jnp.where(place >= 1, self.config.rewards["right"], self.config.rewards["left"])
        return state.replace(place=place), reward, jnp.abs(place) >= 1

    def observe(self, state: WalkState) -> jax.Array:
        return state.place[None]


class Race(EpisodicEnv[Dict, Dict, WalkState, WalkConfig], MultiAgentEnv[WalkState, WalkConfig]):
    """Two agents pull one walker."""

    @property
    def agents(self) -> tuple[str, ...]:
        return "left", "right"

    @property
    def observation_space(self) -> Dict:
        return Dict(left=Box(-2.0, 2.0, (1,)), right=Box(-2.0, 2.0, (1,)))

    @property
    def action_space(self) -> Dict:
        return Dict(left=Discrete(2), right=Discrete(2))

    def begin(self, key: jax.Array, **episode: jax.Array) -> WalkState:
        return WalkState(place=jnp.float32(0), **episode)

    def advance(
        self, state: WalkState, action: dict[str, Any]
    ) -> tuple[WalkState, dict[str, jax.Array], bool]:
        place = state.place + self.config.stride * (action["right"] - action["left"])
        return state.replace(place=place), {"left": -place, "right": place}, False

    def observe(self, state: WalkState) -> dict[str, jax.Array]:
        return {"left": -state.place[None], "right": state.place[None]}

    def info(self, state: WalkState) -> dict[str, Any]:
        return {"place": state.place}


register_suite(EnvSuite(prefix="walks", specs=[EnvSpec("Walk", Walk, WalkConfig(stride=0.25))]))
env = make_vec("walks/Walk-v0", 8, max_steps=20)
at, steps = rollout(env, None, start(env, jax.random.key(0)), 100)
print(steps.reward.sum(), evaluate(env, None, jax.random.key(1), 16).returns.mean())
