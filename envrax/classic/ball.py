# pyright: reportUnknownVariableType=false
"""Ball: an environment that extends `JaxEnv` directly. Read this one first."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax.classic._draw import CORAL, MIST, TEAL, Canvas
from envrax.env import EnvConfig, EnvState, JaxEnv
from envrax.spaces import Box, Discrete


@chex.dataclass
class BallState(EnvState):
    """Ball and target, each a float32 point in the unit square."""

    ball: jax.Array
    target: jax.Array


@chex.dataclass
class BallConfig(EnvConfig):
    """The length of a push, and the distance to the target at which the episode terminates."""

    max_steps: int = 100
    push: float = 0.05
    radius: float = 0.1


class BallEnv(JaxEnv[Box, Discrete, BallState, BallConfig]):
    """Push a ball left (0), right (1), down (2) or up (3) to a target; distance is the cost."""

    @property
    def observation_space(self) -> Box:
        return Box(low=0.0, high=1.0, shape=(4,), dtype=jnp.float32)

    @property
    def action_space(self) -> Discrete:
        return Discrete(4)

    def reset(self, rng: jax.Array) -> tuple[jax.Array, BallState]:
        rng, key = jax.random.split(rng)
        obs = jax.random.uniform(key, (4,), jnp.float32)
        state = BallState(
            rng=rng, step=jnp.int32(0), done=jnp.bool_(False), ball=obs[:2], target=obs[2:]
        )
        return obs, state

    def step(
        self, state: BallState, action: Any
    ) -> tuple[jax.Array, BallState, jax.Array, jax.Array, dict[str, jax.Array]]:
        along = jnp.stack([action < 2, action >= 2])
        push = jnp.where(action % 2 == 0, -self.config.push, self.config.push)
        ball = jnp.clip(state.ball + jnp.where(along, push, 0.0), 0.0, 1.0)
        distance: jax.Array = jnp.linalg.norm(ball - state.target)

        step = state.step + 1
        terminated = distance < self.config.radius
        truncated = step >= self.config.max_steps
        done = terminated | truncated
        new_state = state.replace(ball=ball, step=step, done=done)
        obs = jnp.concatenate([ball, state.target])
        return obs, new_state, -distance, done, {"terminated": terminated, "truncated": truncated}

    def render(self, state: BallState) -> np.ndarray:
        ball, target = np.asarray(state.ball).tolist(), np.asarray(state.target).tolist()
        canvas = Canvas(320, 320, scale=260, centre=(0.5, 0.5))
        canvas.box((0.5, 0.5), (1.1, 1.1), MIST, corner=0.04)
        canvas.disc(target, float(self.config.radius), TEAL)
        canvas.disc(ball, 0.04, CORAL)
        return canvas.image()
