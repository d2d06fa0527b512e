"""Acrobot: swing a two-link arm up by its elbow."""

import math
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax.classic._draw import AMBER, BLUE, INK, SLATE, TEAL, Canvas
from envrax.env import EnvConfig, EnvState
from envrax.episodic_env import EpisodicEnv
from envrax.spaces import Box, Discrete

_MAX_SPEED_1, _MAX_SPEED_2 = 4 * math.pi, 9 * math.pi


@chex.dataclass
class AcrobotState(EnvState):
    """
    Angles in [-pi, pi] and their rates, each a float32 scalar.

    `angle_1` is the angle of the upper link, 0 if it hangs down. `angle_2` is the angle of the
    lower link, relative to the upper one.
    """

    angle_1: jax.Array
    angle_2: jax.Array
    speed_1: jax.Array
    speed_2: jax.Array


@chex.dataclass
class AcrobotConfig(EnvConfig):
    """Masses, length of the upper link, centres of mass, inertia, torque, time step."""

    max_steps: int = 500
    gravity: float = 9.8
    mass_1: float = 1.0
    mass_2: float = 1.0
    length_1: float = 1.0
    centre_1: float = 0.5
    centre_2: float = 0.5
    inertia: float = 1.0
    torque: float = 1.0
    dt: float = 0.2


class Acrobot(EpisodicEnv[Box, Discrete, AcrobotState, AcrobotConfig]):
    """
    Swing an arm of two links up by the motor at its elbow.

    | observation | unit | bounds |
    |---|---|---|
    | cosine and sine of the upper link's angle, 0 hanging down | | ±1 |
    | cosine and sine of the lower link's, relative to the upper | | ±1 |
    | speed of the upper link | rad/s | ±12.57 |
    | speed of the lower link | rad/s | ±28.27 |

    | action | meaning |
    |---|---|
    | 0 | torque of -1 N m |
    | 1 | none |
    | 2 | torque of 1 N m |

    - **Reward**: -1 for each step, 0 for the one that ends the episode.
    - **Start**: both angles and both speeds uniform within ±0.1.
    - **Terminates** when the tip is one link above the shoulder.
    - **Truncates** after `max_steps`, 500.
    - **Gymnasium**: as `Acrobot-v1`, in float32.
    """

    @property
    def observation_space(self) -> Box:
        high = np.array([1.0, 1.0, 1.0, 1.0, _MAX_SPEED_1, _MAX_SPEED_2], np.float32)
        return Box(low=-high, high=high, shape=(6,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(3)

    def begin(self, key: jax.Array, **episode: jax.Array) -> AcrobotState:
        angle_1, angle_2, speed_1, speed_2 = jax.random.uniform(key, (4,), jnp.float32, -0.1, 0.1)
        return AcrobotState(
            angle_1=angle_1, angle_2=angle_2, speed_1=speed_1, speed_2=speed_2, **episode
        )

    def observe(self, state: AcrobotState) -> jax.Array:
        a1, a2 = state.angle_1, state.angle_2
        turns = [jnp.cos(a1), jnp.sin(a1), jnp.cos(a2), jnp.sin(a2)]
        return jnp.stack([*turns, state.speed_1, state.speed_2])

    def advance(
        self, state: AcrobotState, action: Any
    ) -> tuple[AcrobotState, jax.Array, jax.Array]:
        c = self.config
        torque = jnp.where(action == 2, c.torque, jnp.where(action == 0, -c.torque, 0.0))
        a1, a2, v1, v2 = self._integrate(
            [state.angle_1, state.angle_2, state.speed_1, state.speed_2], torque
        )
        a1, a2 = (a - 2 * math.pi * jnp.round(a / (2 * math.pi)) for a in (a1, a2))
        state = state.replace(
            angle_1=a1,
            angle_2=a2,
            speed_1=jnp.clip(v1, -_MAX_SPEED_1, _MAX_SPEED_1),
            speed_2=jnp.clip(v2, -_MAX_SPEED_2, _MAX_SPEED_2),
        )
        terminated = -jnp.cos(a1) - jnp.cos(a1 + a2) > 1.0
        return state, jnp.where(terminated, jnp.float32(0.0), jnp.float32(-1.0)), terminated

    def _integrate(self, start: list[jax.Array], torque: jax.Array) -> list[jax.Array]:
        """One Runge-Kutta step of fourth order."""
        dt = self.config.dt

        def moved(slopes: list[jax.Array], time: Any) -> list[jax.Array]:
            return [x + time * slope for x, slope in zip(start, slopes, strict=True)]

        k1 = self._slopes(start, torque)
        k2 = self._slopes(moved(k1, dt / 2.0), torque)
        k3 = self._slopes(moved(k2, dt / 2.0), torque)
        k4 = self._slopes(moved(k3, dt), torque)
        total = [a + 2 * b + 2 * c + d for a, b, c, d in zip(k1, k2, k3, k4, strict=True)]
        return moved(total, dt / 6.0)

    def _slopes(self, motion: list[jax.Array], torque: jax.Array) -> list[jax.Array]:
        """The time derivatives of angles and speeds, as in Sutton and Barto's book."""
        c = self.config
        a1, a2, v1, v2 = motion
        sin_2, cos_2 = jnp.sin(a2), jnp.cos(a2)
        coupling = c.mass_2 * c.length_1 * c.centre_2
        inertia_2 = c.mass_2 * c.centre_2**2 + c.inertia
        d2 = inertia_2 + coupling * cos_2
        d1 = c.mass_1 * c.centre_1**2 + c.mass_2 * c.length_1**2 + c.inertia + d2 + coupling * cos_2
        phi_2 = c.mass_2 * c.centre_2 * c.gravity * jnp.sin(a1 + a2)
        weight_1 = (c.mass_1 * c.centre_1 + c.mass_2 * c.length_1) * c.gravity * jnp.sin(a1)
        phi_1 = weight_1 + phi_2 - coupling * sin_2 * v2 * (v2 + 2.0 * v1)
        drive = torque + d2 / d1 * phi_1 - coupling * jnp.square(v1) * sin_2 - phi_2
        rate_2 = drive / (inertia_2 - jnp.square(d2) / d1)
        rate_1 = -(d2 * rate_2 + phi_1) / d1
        return [v1, v2, rate_1, rate_2]

    def render(self, state: AcrobotState) -> np.ndarray:
        a1, a12 = float(state.angle_1), float(state.angle_1 + state.angle_2)
        elbow = (math.sin(a1), -math.cos(a1))
        tip = (elbow[0] + math.sin(a12), elbow[1] - math.cos(a12))
        canvas = Canvas(320, 320, scale=70)
        for dash in np.arange(-2.2, 2.3, 0.2):
            canvas.line((float(dash) - 0.04, 1.0), (float(dash) + 0.04, 1.0), 0.03, SLATE)
        canvas.line((0.0, 0.0), elbow, 0.2, BLUE)
        canvas.line(elbow, tip, 0.2, TEAL)
        for joint in ((0.0, 0.0), elbow):
            canvas.disc(joint, 0.07, INK)
        canvas.disc(tip, 0.07, AMBER)
        return canvas.image()
