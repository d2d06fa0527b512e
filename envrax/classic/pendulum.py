"""Pendulum: swing a pole up with a weak motor, and hold it."""

import math
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax.classic._draw import CORAL, INK, MIST, SLATE, Canvas
from envrax.env import EnvConfig, EnvState
from envrax.episodic_env import EpisodicEnv
from envrax.spaces import Box

_MAX_SPEED = 8.0
_MAX_TORQUE = 2.0


@chex.dataclass
class PendulumState(EnvState):
    """Angle and its rate, each a float32 scalar. Angle 0 is upright; angles are not wrapped."""

    angle: jax.Array
    speed: jax.Array


@chex.dataclass
class PendulumConfig(EnvConfig):
    """Mass in kg, length in m, the time step in s."""

    max_steps: int = 200
    gravity: float = 10.0
    mass: float = 1.0
    length: float = 1.0
    dt: float = 0.05


class Pendulum(EpisodicEnv[Box, Box, PendulumState, PendulumConfig]):
    """
    Swing a pole up by a motor that is too weak to lift it at once, and hold it upright.

    | observation | unit | bounds |
    |---|---|---|
    | cosine of the angle, 1 upright | | ±1 |
    | sine of the angle | | ±1 |
    | speed | rad/s | ±8 |

    | action | unit | bounds |
    |---|---|---|
    | torque; clipped | N m | ±2 |

    - **Reward**: -(angle² + 0.1 speed² + 0.001 torque²), angle within ±π: 0 at rest upright.
    - **Start**: angle uniform within ±π, speed within ±1.
    - **Terminates** never.
    - **Truncates** after `max_steps`, 200.
    - **Gymnasium**: as `Pendulum-v1`, in float32.
    """

    @property
    def observation_space(self) -> Box:
        high = np.array([1.0, 1.0, _MAX_SPEED], np.float32)
        return Box(low=-high, high=high, shape=(3,))

    @property
    def action_space(self) -> Box:
        return Box(low=-_MAX_TORQUE, high=_MAX_TORQUE, shape=(1,))

    def begin(self, key: jax.Array, **episode: jax.Array) -> PendulumState:
        angle, speed = jax.random.uniform(key, (2,), jnp.float32, -1.0, 1.0)
        return PendulumState(angle=math.pi * angle, speed=speed, **episode)

    def observe(self, state: PendulumState) -> jax.Array:
        return jnp.stack([jnp.cos(state.angle), jnp.sin(state.angle), state.speed])

    def advance(
        self, state: PendulumState, action: Any
    ) -> tuple[PendulumState, jax.Array, jax.Array]:
        c = self.config
        torque = jnp.asarray(action, state.speed.dtype).reshape(())
        torque = jnp.clip(torque, -_MAX_TORQUE, _MAX_TORQUE)
        tilt = state.angle - 2.0 * math.pi * jnp.round(state.angle / (2.0 * math.pi))
        cost = jnp.square(tilt) + 0.1 * jnp.square(state.speed) + 0.001 * jnp.square(torque)

        pull = 3.0 * c.gravity / (2.0 * c.length) * jnp.sin(state.angle)
        drive = 3.0 / (c.mass * c.length**2) * torque
        speed = jnp.clip(state.speed + (pull + drive) * c.dt, -_MAX_SPEED, _MAX_SPEED)
        state = state.replace(angle=state.angle + speed * c.dt, speed=speed)
        return state, -cost, jnp.bool_(False)

    def render(self, state: PendulumState) -> np.ndarray:
        angle = float(state.angle)
        canvas = Canvas(320, 320, scale=125)
        canvas.disc((0.0, 0.0), 1.12, MIST)
        canvas.line((0.0, 1.06), (0.0, 1.18), 0.025, SLATE)
        canvas.line((0.0, 0.0), (-math.sin(angle), math.cos(angle)), 0.2, CORAL)
        canvas.disc((0.0, 0.0), 0.05, INK)
        return canvas.image()
