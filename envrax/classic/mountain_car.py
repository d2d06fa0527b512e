"""MountainCar: swing a weak car out of a valley."""

import math
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax.classic._draw import BLUE, CORAL, INK, MIST, SLATE, Canvas
from envrax.env import EnvConfig, EnvState
from envrax.episodic_env import EpisodicEnv
from envrax.spaces import Box, Discrete

_MIN_POSITION, _MAX_POSITION = -1.2, 0.6
_MAX_SPEED = 0.07
_GOAL = 0.5


@chex.dataclass
class MountainCarState(EnvState):
    """Position along the valley and velocity, each a float32 scalar."""

    position: jax.Array
    velocity: jax.Array


@chex.dataclass
class MountainCarConfig(EnvConfig):
    """`force` and `gravity` per step, and the least velocity at the goal."""

    max_steps: int = 200
    force: float = 0.001
    gravity: float = 0.0025
    goal_velocity: float = 0.0


class MountainCar(EpisodicEnv[Box, Discrete, MountainCarState, MountainCarConfig]):
    """
    Swing a car that is too weak for the hill out of a valley, to the flag on the right.

    | observation | bounds |
    |---|---|
    | position along the valley, its bottom at -0.52 | -1.2 to 0.6 |
    | velocity per step | ±0.07 |

    | action | meaning |
    |---|---|
    | 0 | push left |
    | 1 | do not push |
    | 2 | push right |

    - **Reward**: -1 for each step.
    - **Start**: position uniform in -0.6 to -0.4, at rest.
    - **Terminates** at the flag: position 0.5 or more, with `goal_velocity` or more.
    - **Truncates** after `max_steps`, 200.
    - **Gymnasium**: as `MountainCar-v0`, in float32.
    """

    @property
    def observation_space(self) -> Box:
        low = np.array([_MIN_POSITION, -_MAX_SPEED], np.float32)
        high = np.array([_MAX_POSITION, _MAX_SPEED], np.float32)
        return Box(low=low, high=high, shape=(2,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(3)

    def begin(self, key: jax.Array, **episode: jax.Array) -> MountainCarState:
        position = jax.random.uniform(key, (), jnp.float32, -0.6, -0.4)
        return MountainCarState(position=position, velocity=jnp.float32(0.0), **episode)

    def observe(self, state: MountainCarState) -> jax.Array:
        return jnp.stack([state.position, state.velocity])

    def advance(
        self, state: MountainCarState, action: Any
    ) -> tuple[MountainCarState, jax.Array, jax.Array]:
        c = self.config
        push = jnp.where(action == 2, c.force, jnp.where(action == 0, -c.force, 0.0))
        velocity = state.velocity + (push - jnp.cos(3.0 * state.position) * c.gravity)
        velocity = jnp.clip(velocity, -_MAX_SPEED, _MAX_SPEED)
        position = jnp.clip(state.position + velocity, _MIN_POSITION, _MAX_POSITION)
        # The wall at the left end stops the car.
        velocity = jnp.where((position <= _MIN_POSITION) & (velocity < 0.0), 0.0, velocity)
        terminated = (position >= _GOAL) & (velocity >= c.goal_velocity)
        state = state.replace(position=position, velocity=velocity)
        return state, jnp.float32(-1.0), terminated

    def render(self, state: MountainCarState) -> np.ndarray:
        def height(x: Any) -> Any:
            return 0.45 * np.sin(3.0 * x) + 0.55

        x = float(state.position)
        slope = math.atan(1.35 * math.cos(3.0 * x))

        def on_car(along: float, up: float) -> tuple[float, float]:
            return (
                x + along * math.cos(slope) - up * math.sin(slope),
                float(height(x)) + along * math.sin(slope) + up * math.cos(slope),
            )

        canvas = Canvas(400, 256, scale=200, centre=(-0.3, 0.62))
        canvas.ground(height, MIST)
        foot, top = float(height(_GOAL)), float(height(_GOAL)) + 0.2
        canvas.line((_GOAL, foot), (_GOAL, top), 0.012, SLATE)
        canvas.box((_GOAL + 0.05, top - 0.03), (0.1, 0.06), CORAL, corner=0.01)
        canvas.line(on_car(-0.05, 0.055), on_car(0.05, 0.055), 0.05, BLUE)
        for wheel in (-0.05, 0.05):
            canvas.disc(on_car(wheel, 0.025), 0.025, INK)
        return canvas.image()
