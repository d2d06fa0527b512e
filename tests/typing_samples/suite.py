"""A small suite of a user: checked by pyright and by mypy, both strict."""

import dataclasses
from typing import Any

import chex  # pyright: ignore[reportMissingTypeStubs]
import jax
import jax.numpy as jnp

from envrax import (
    Box,
    Discrete,
    EnvConfig,
    EnvSpec,
    EnvState,
    EnvSuite,
    JaxEnv,
    evaluate,
    make_vec,
    register_suite,
    rollout,
    start,
)

Info = dict[str, Any]


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


class Walk(JaxEnv[Box, Discrete, WalkState, WalkConfig]):
    """Walk along a line to one of its ends."""

    @property
    def observation_space(self) -> Box:
        return Box(low=-2.0, high=2.0, shape=(1,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def reset(self, rng: jax.Array) -> tuple[jax.Array, WalkState]:
        state = WalkState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False), place=jnp.float32(0))
        return state.place[None], state

    def step(
        self, state: WalkState, action: jax.Array
    ) -> tuple[jax.Array, WalkState, jax.Array, jax.Array, Info]:
        place = state.place + self.config.stride * (2.0 * action - 1.0)
        done = (jnp.abs(place) >= 1) | (state.step + 1 >= self.config.max_steps)
        reward = jnp.where(place >= 1, self.config.rewards["right"], self.config.rewards["left"])
        state = state.replace(place=place, step=state.step + 1, done=done)
        return place[None], state, reward, done, {}


register_suite(EnvSuite(prefix="walks", specs=[EnvSpec("Walk", Walk, WalkConfig(stride=0.25))]))
env = make_vec("walks/Walk-v0", 8, max_steps=20)
at, steps = rollout(env, None, start(env, jax.random.key(0)), 100)
print(steps.reward.sum(), evaluate(env, None, jax.random.key(1), 16).returns.mean())
