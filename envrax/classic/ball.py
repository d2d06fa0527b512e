# pyright: reportUnknownVariableType=false
"""Ball: push a ball to a target. Read this one first."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax.classic._draw import CORAL, MIST, TEAL, Canvas
from envrax.env import EnvConfig, EnvState
from envrax.episodic_env import EpisodicEnv
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


class BallEnv(EpisodicEnv[Box, Discrete, BallState, BallConfig]):
    """
    Push a ball to a target in the unit square.

    | observation | bounds |
    |---|---|
    | the ball's x and y | 0 to 1 |
    | the target's x and y | 0 to 1 |

    | action | meaning |
    |---|---|
    | 0 | push left by `push`, 0.05 |
    | 1 | push right |
    | 2 | push down |
    | 3 | push up |

    - **Reward**: minus the distance of the ball from the target, after the push.
    - **Start**: ball and target uniform in the square.
    - **Terminates** within `radius`, 0.1, of the target.
    - **Truncates** after `max_steps`, 100.
    - **Gymnasium** has none like it.
    """

    @property
    def observation_space(self) -> Box:
        return Box(low=0.0, high=1.0, shape=(4,), dtype=jnp.float32)

    @property
    def action_space(self) -> Discrete:
        return Discrete(4)

    def begin(self, key: jax.Array, **episode: jax.Array) -> BallState:
        points = jax.random.uniform(key, (4,), jnp.float32)
        return BallState(ball=points[:2], target=points[2:], **episode)

    def observe(self, state: BallState) -> jax.Array:
        return jnp.concatenate([state.ball, state.target])

    def advance(self, state: BallState, action: Any) -> tuple[BallState, jax.Array, jax.Array]:
        along = jnp.stack([action < 2, action >= 2])
        push = jnp.where(action % 2 == 0, -self.config.push, self.config.push)
        ball = jnp.clip(state.ball + jnp.where(along, push, 0.0), 0.0, 1.0)
        distance: jax.Array = jnp.linalg.norm(ball - state.target)
        return state.replace(ball=ball), -distance, distance < self.config.radius

    def render(self, state: BallState) -> np.ndarray:
        ball, target = np.asarray(state.ball).tolist(), np.asarray(state.target).tolist()
        canvas = Canvas(320, 320, scale=260, centre=(0.5, 0.5))
        canvas.box((0.5, 0.5), (1.1, 1.1), MIST, corner=0.04)
        canvas.disc(target, float(self.config.radius), TEAL)
        canvas.disc(ball, 0.04, CORAL)
        return canvas.image()
