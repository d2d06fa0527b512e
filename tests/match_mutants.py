"""Environments of the suite `classic` with one fault each, and how Gymnasium's get their states."""

import math
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from envrax import EnvState, JaxEnv, classic

Env = JaxEnv[Any, Any, Any, Any]
IDS = {
    "CartPole": "CartPole-v1",
    "MountainCar": "MountainCar-v0",
    "Pendulum": "Pendulum-v1",
    "Acrobot": "Acrobot-v1",
}


def reference(env: Env) -> Any:
    """Gymnasium's environment of that name."""
    return gymnasium.make(IDS[env.name.partition("With")[0]], disable_env_checker=True)


def put(reference: Any, state: EnvState) -> None:
    """Our state in Gymnasium's environment."""
    own = [name for name in vars(state) if name not in vars(EnvState(rng=0, step=0, done=0))]
    reference.unwrapped.state = np.array([getattr(state, name) for name in own], np.float64)


class CartPoleWithLateClock(classic.CartPole):
    """The limit comes a step late."""

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, _, info = super().step(state, action)
        truncated = state.step > self.config.max_steps
        done = info["terminated"] | truncated
        info = {**info, "truncated": truncated}
        return obs, state.replace(done=done), reward, done, info


class CartPoleWithWideStart(classic.CartPole):
    """The start is 5 % too wide."""

    def begin(self, key: jax.Array, **episode: jax.Array) -> Any:
        state = super().begin(key, **episode)
        return state.replace(angle=1.05 * state.angle)


class CartPoleWithOneDraw(classic.CartPole):
    """Position and angle begin at the same value."""

    def begin(self, key: jax.Array, **episode: jax.Array) -> Any:
        state = super().begin(key, **episode)
        return state.replace(angle=state.position)


class CartPoleWithWiderAngle(classic.CartPole):
    """An episode ends beyond 12.0001 degrees."""

    def advance(self, state: Any, action: Any) -> Any:
        new, reward, _ = super().advance(state, action)
        terminated = (abs(new.position) > 2.4) | (abs(new.angle) > math.radians(12.0001))
        return new, reward, terminated


class MountainCarWithSoftWall(classic.MountainCar):
    """The wall stops the position, and not the velocity."""

    def advance(self, state: Any, action: Any) -> Any:
        new, reward, terminated = super().advance(state, action)
        c = self.config
        velocity = state.velocity + (
            (action - 1) * c.force - jnp.cos(3 * state.position) * c.gravity
        )
        return new.replace(velocity=jnp.clip(velocity, -0.07, 0.07)), reward, terminated


class MountainCarWithFarGoal(classic.MountainCar):
    """The goal is at 0.50001."""

    def advance(self, state: Any, action: Any) -> Any:
        new, reward, _ = super().advance(state, action)
        return new, reward, new.position >= 0.50001


class PendulumWithOpenAngle(classic.Pendulum):
    """The cost is that of the angle as it is, beyond half a turn too."""

    def advance(self, state: Any, action: Any) -> Any:
        new, reward, terminated = super().advance(state, action)
        turn = 2 * math.pi
        wrapped = state.angle - turn * jnp.round(state.angle / turn)
        return new, reward + jnp.square(wrapped) - jnp.square(state.angle), terminated


def config(cls: type[Env], **fields: Any) -> Env:
    return cls(cls().config.replace(**fields))


# The fault, the environment, the check that finds it.
MUTANTS: dict[str, tuple[Env, str]] = {
    "gravity 9.800001": (config(classic.CartPole, gravity=9.800001), "one step"),
    "clock off by one": (CartPoleWithLateClock(), "limit"),
    "a start 5 % too wide": (CartPoleWithWideStart(), "starts"),
    "one draw for two numbers": (CartPoleWithOneDraw(), "starts"),
    "an end at 12.0001 degrees": (CartPoleWithWiderAngle(), "ends"),
    "a wall that does not stop": (MountainCarWithSoftWall(), "one step"),
    "a goal at 0.50001": (MountainCarWithFarGoal(), "ends"),
    "an angle that is not wrapped": (PendulumWithOpenAngle(), "one step"),
    "a time step of 0.0500001": (config(classic.Pendulum, dt=0.0500001), "one step"),
}
