"""Batched environments that are no `VecEnv`: a scene of many agents, and one of the host."""

from typing import Any

import chex
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from envrax import BatchedEnv, Box, Discrete


@chex.dataclass
class SceneState:
    rng: jax.Array
    place: jax.Array  # int32[n], of each agent on a ring
    age: jax.Array  # int32[n]


class Scene(BatchedEnv[Box, Discrete]):
    """Agents on one ring, who see how many stand where they are, and start anew when crowded."""

    def __init__(self, n_agents: int, size: int = 8) -> None:
        self._n_agents, self.size = n_agents, size

    @property
    def n_slots(self) -> int:
        return self._n_agents

    @property
    def single_observation_space(self) -> Box:
        return Box(0, 1000, (2,), jnp.int32)

    @property
    def single_action_space(self) -> Discrete:
        return Discrete(3)

    def _obs(self, state: SceneState) -> jax.Array:
        crowd = jnp.sum(state.place[:, None] == state.place, axis=1, dtype=jnp.int32)
        return jnp.stack([state.place, crowd], axis=1)

    def _anywhere(self, rng: jax.Array) -> jax.Array:
        return jax.random.randint(rng, (self.n_slots,), 0, self.size, jnp.int32)

    def reset(self, rng: jax.Array) -> tuple[jax.Array, SceneState]:
        rng, key = jax.random.split(rng)
        age = jnp.zeros(self.n_slots, jnp.int32)
        state = SceneState(rng=rng, place=self._anywhere(key), age=age)
        return self._obs(state), state

    def step(self, state: SceneState, actions: Any) -> tuple[Any, ...]:
        rng, key = jax.random.split(state.rng)
        place = (state.place + jnp.asarray(actions, jnp.int32) - 1) % self.size
        moved = SceneState(rng=rng, place=place, age=state.age + 1)
        crowd = self._obs(moved)[:, 1]
        done = crowd > 2
        place = jnp.where(done, self._anywhere(key), place)
        new = SceneState(rng=rng, place=place, age=jnp.where(done, 0, moved.age))
        return self._obs(new), new, -crowd.astype(jnp.float32), done, {"age": moved.age}

    def slot_state(self, state: SceneState, slot_idx: int | jax.Array = 0) -> Any:
        return state.place[slot_idx], state.age[slot_idx]


class OnTheHost(BatchedEnv[Box, Discrete]):
    """Gymnasium's CartPole behind the batch contract; its state lives in Gymnasium."""

    traceable = False  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def __init__(self, n_slots: int) -> None:
        self._n_slots = n_slots
        self.steps, self.closed = 0, False
        make = [lambda: gymnasium.make("CartPole-v1")] * n_slots
        self.env = SyncVectorEnv(make, autoreset_mode=AutoresetMode.SAME_STEP)

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
