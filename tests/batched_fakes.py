"""Batched environments other than `VecEnv`: a scene of many agents, and a host simulator."""

from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from envrax import BatchedEnv, Box, Discrete
from envrax.testing import RingWorld


class Scene(RingWorld):
    """Agents on one ring, of whom one can be taken out."""

    def slot_state(self, state: Any, slot_idx: int | jax.Array = 0) -> Any:
        return state.place[slot_idx], state.age[slot_idx]


class OnTheHost(BatchedEnv[Box, Discrete]):
    """Gymnasium's CartPole behind the batch contract; its state lives in Gymnasium."""

    traceable = False  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def __init__(self, n_slots: int, autoreset_mode: Any = AutoresetMode.SAME_STEP) -> None:
        self._n_slots = n_slots
        self.steps, self.closed = 0, False
        make = [lambda: gymnasium.make("CartPole-v1")] * n_slots
        self.env = SyncVectorEnv(make, autoreset_mode=autoreset_mode)

    @property
    def n_slots(self) -> int:
        return self._n_slots

    @property
    def name(self) -> str:
        return "GymCartPole"

    @property
    def single_observation_space(self) -> Box:
        return Box(-np.inf, np.inf, (4,))

    @property
    def single_action_space(self) -> Discrete:
        return Discrete(2)

    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        obs, _ = self.env.reset(seed=int(jax.random.bits(rng) >> 1))
        return obs, "held by Gymnasium"

    def step(self, state: Any, actions: Any) -> tuple[Any, ...]:
        self.steps += 1
        obs, rewards, terminated, truncated, _ = self.env.step(np.asarray(actions))
        info = {"terminated": terminated, "truncated": truncated}
        return obs, state, rewards.astype(np.float32), terminated | truncated, info

    def close(self) -> None:
        self.closed = True
        self.env.close()
