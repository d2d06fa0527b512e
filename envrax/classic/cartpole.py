"""CartPole: balance a pole on a cart."""

import math
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax.classic._draw import AMBER, BLUE, INK, MIST, SLATE, Canvas
from envrax.env import EnvConfig, EnvState
from envrax.episodic_env import EpisodicEnv
from envrax.spaces import Box, Discrete

_MAX_POSITION = 2.4
_MAX_ANGLE = math.radians(12)


@chex.dataclass
class CartPoleState(EnvState):
    """Position and angle and their rates, each a float32 scalar. Angle 0 is upright."""

    position: jax.Array
    velocity: jax.Array
    angle: jax.Array
    spin: jax.Array


@chex.dataclass
class CartPoleConfig(EnvConfig):
    """Masses in kg, half the length of the pole in m, the push in N, the time step in s."""

    max_steps: int = 500
    gravity: float = 9.8
    cart_mass: float = 1.0
    pole_mass: float = 0.1
    half_length: float = 0.5
    force: float = 10.0
    dt: float = 0.02


class CartPole(EpisodicEnv[Box, Discrete, CartPoleState, CartPoleConfig]):
    """
    Balance a pole on a cart by pushing the cart.

    | observation | unit | bounds |
    |---|---|---|
    | position of the cart | m | ±4.8 |
    | its velocity | m/s | none |
    | angle of the pole, 0 upright | rad | ±0.42 |
    | its rate | rad/s | none |

    | action | meaning |
    |---|---|
    | 0 | push the cart left |
    | 1 | push it right |

    - **Reward**: 1 for each step, the last one too.
    - **Start**: all four uniform within ±0.05.
    - **Terminates** when the cart is beyond 2.4 m, or the pole beyond 12 degrees (0.21 rad).
    - **Truncates** after `max_steps`, 500.
    - **Gymnasium**: as `CartPole-v1`, in float32.
    """

    @property
    def observation_space(self) -> Box:
        high = np.array([2 * _MAX_POSITION, np.inf, 2 * _MAX_ANGLE, np.inf], np.float32)
        return Box(low=-high, high=high, shape=(4,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def begin(self, key: jax.Array, **episode: jax.Array) -> CartPoleState:
        position, velocity, angle, spin = jax.random.uniform(key, (4,), jnp.float32, -0.05, 0.05)
        return CartPoleState(
            position=position, velocity=velocity, angle=angle, spin=spin, **episode
        )

    def observe(self, state: CartPoleState) -> jax.Array:
        return jnp.stack([state.position, state.velocity, state.angle, state.spin])

    def advance(
        self, state: CartPoleState, action: Any
    ) -> tuple[CartPoleState, jax.Array, jax.Array]:
        c = self.config
        total_mass = c.cart_mass + c.pole_mass
        pole_moment = c.pole_mass * c.half_length
        push = jnp.where(action == 1, c.force, -c.force)
        sin, cos = jnp.sin(state.angle), jnp.cos(state.angle)

        drive = (push + pole_moment * jnp.square(state.spin) * sin) / total_mass
        spin_rate = (c.gravity * sin - cos * drive) / (
            c.half_length * (4.0 / 3.0 - c.pole_mass * jnp.square(cos) / total_mass)
        )
        acceleration = drive - pole_moment * spin_rate * cos / total_mass

        state = state.replace(
            position=state.position + c.dt * state.velocity,
            velocity=state.velocity + c.dt * acceleration,
            angle=state.angle + c.dt * state.spin,
            spin=state.spin + c.dt * spin_rate,
        )
        terminated = (jnp.abs(state.position) > _MAX_POSITION) | (jnp.abs(state.angle) > _MAX_ANGLE)
        return state, jnp.float32(1.0), terminated

    def render(self, state: CartPoleState) -> np.ndarray:
        x, angle = float(state.position), float(state.angle)
        tip = (x + math.sin(angle), 0.2 + math.cos(angle))
        canvas = Canvas(400, 256, scale=80, centre=(0.0, 0.7))
        canvas.line((-3.0, 0.0), (3.0, 0.0), 0.03, SLATE)
        for edge in (-_MAX_POSITION, _MAX_POSITION):
            canvas.box((edge, 0.0), (0.05, 0.3), MIST, corner=0.025)
        canvas.box((x, 0.1), (0.6, 0.3), INK, corner=0.06)
        canvas.line((x, 0.2), tip, 0.1, AMBER)
        canvas.disc((x, 0.2), 0.07, BLUE)
        return canvas.image()
