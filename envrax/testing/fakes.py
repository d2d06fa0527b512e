"""Small environments for tests of trainers, wrappers and tools. All of them pass the checks."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax.batched_env import BatchedEnv
from envrax.env import EnvConfig, EnvState, Info, JaxEnv
from envrax.episodic_env import EpisodicEnv
from envrax.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple


@chex.dataclass
class FakeConfig(EnvConfig):
    """Configuration of the fakes: short episodes."""

    max_steps: int = 5


@chex.dataclass
class FakeState(EnvState):
    """
    State of the fakes.

    Attributes
    ----------
    number : jax.Array
        int32 scalar, drawn at reset.
    """

    number: jax.Array


class CountingEnv(EpisodicEnv[Box, Discrete, FakeState, FakeConfig]):
    """
    Observations of integers, so that results are equal bit for bit on every device.

    The observation is `[number, step]`, int32, with `number` drawn at reset. The reward is the
    action. An episode is truncated after `max_steps`.
    """

    @property
    def observation_space(self) -> Box:
        return Box(0, 1000, (2,), jnp.int32)

    @property
    def action_space(self) -> Discrete:
        return Discrete(3)

    def begin(self, key: jax.Array, **episode: jax.Array) -> FakeState:
        return FakeState(number=jax.random.randint(key, (), 0, 100, jnp.int32), **episode)

    def advance(self, state: FakeState, action: Any) -> tuple[FakeState, Any, Any]:
        return state, jnp.asarray(action).astype(jnp.float32), jnp.bool_(False)

    def observe(self, state: FakeState) -> Any:
        return jnp.stack([state.number, state.step])

    def render(self, state: FakeState) -> np.ndarray:
        return np.full((16, 16, 3), np.asarray(state.number), np.uint8)


class ImageEnv(CountingEnv):
    """
    A bright bar that moves over an image, uint8[12, 10, 3]. `render` returns the same image.

    Action 0 moves the bar to the left, 2 to the right.
    """

    @property
    def observation_space(self) -> Box:  # pyright: ignore[reportIncompatibleVariableOverride]
        return Box(0, 255, (12, 10, 3), jnp.uint8)

    def observe(self, state: FakeState) -> Any:
        lit = jnp.arange(10, dtype=jnp.int32) == state.number % 10
        bar = jnp.where(lit[:, None], jnp.asarray([255, 128, 1], jnp.uint8), jnp.uint8(0))
        return jnp.broadcast_to(bar, (12, 10, 3))

    def advance(self, state: FakeState, action: Any) -> tuple[FakeState, Any, Any]:
        number = state.number + jnp.asarray(action, jnp.int32) - 1
        return super().advance(state.replace(number=jnp.clip(number, 0, 99)), action)

    def render(self, state: FakeState) -> np.ndarray:
        return np.asarray(self.observe(state))


class MaskedEnv(CountingEnv):
    """
    The legal actions change with the state: an action may not be repeated in the next step.

    The first number of the observation is the last action; at reset, a random action. An illegal
    action terminates the episode with a reward of -1.
    """

    def action_mask(self, state: FakeState) -> jax.Array:
        return jnp.arange(3, dtype=jnp.int32) != state.number % 3

    def advance(self, state: FakeState, action: Any) -> tuple[FakeState, Any, Any]:
        illegal = ~self.action_mask(state)[action]
        state, reward, _ = super().advance(state, action)
        reward = jnp.where(illegal, jnp.float32(-1), reward)
        return state.replace(number=jnp.asarray(action, jnp.int32)), reward, illegal


class NestedEnv(JaxEnv[Dict, Tuple, FakeState, FakeConfig]):
    """
    Nested spaces, random resets and steps, and episodes that end at random.

    Observations are `{"image": uint8[2, 2], "place": (int32, float32[2])}`, actions
    `(Discrete(3), MultiDiscrete((2, 3)))`.
    """

    @property
    def observation_space(self) -> Dict:
        place = Tuple((Discrete(100), Box(0.0, 1.0, (2,))))
        return Dict(image=Box(0, 255, (2, 2), jnp.uint8), place=place)

    @property
    def action_space(self) -> Tuple:
        return Tuple((Discrete(3), MultiDiscrete((2, 3))))

    def _observe(self, number: jax.Array, key: jax.Array) -> dict[str, Any]:
        image = jnp.full((2, 2), number.astype(jnp.uint8))
        return {"image": image, "place": (number, jax.random.uniform(key, (2,), jnp.float32))}

    def reset(self, rng: jax.Array) -> tuple[Any, FakeState]:
        rng, number_key, noise_key = jax.random.split(rng, 3)
        number = jax.random.randint(number_key, (), 0, 100, jnp.int32)
        state = FakeState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False), number=number)
        return self._observe(number, noise_key), state

    def step(self, state: FakeState, action: Any) -> tuple[Any, FakeState, Any, Any, Info]:
        rng, coin, noise_key = jax.random.split(state.rng, 3)
        step, (one, two) = state.step + 1, action
        moved = jnp.asarray(one, jnp.int32) + jnp.sum(jnp.asarray(two), dtype=jnp.int32)
        number = (state.number + moved) % 100
        terminated = jax.random.bernoulli(coin, jnp.float32(0.2))
        truncated = step >= self.config.max_steps
        done = terminated | truncated
        new = FakeState(rng=rng, step=step, done=done, number=number)
        info = {"terminated": terminated, "truncated": truncated, "moved": {"by": moved}}
        return self._observe(number, noise_key), new, moved.astype(jnp.float32), done, info


@chex.dataclass
class RingState:
    """
    State of `RingWorld`.

    Attributes
    ----------
    rng : jax.Array
        PRNG key, shared by all agents.
    place, age : jax.Array
        int32[n_agents]: the place of each agent, and the number of steps in its episode.
    """

    rng: jax.Array
    place: jax.Array
    age: jax.Array


class RingWorld(BatchedEnv[Box, Discrete]):
    """
    A batch that is not a `VecEnv`: agents on one ring, each of them a slot.

    An agent observes its place and the number of agents at that place. If there are more than two,
    its episode ends, and the next one starts at a random place.

    Parameters
    ----------
    n_agents : int, default 6
        Number of agents.
    size : int, default 8
        Number of places on the ring.
    """

    def __init__(self, n_agents: int = 6, size: int = 8) -> None:
        self.n_agents, self.size = n_agents, size

    @property
    def n_slots(self) -> int:
        return self.n_agents

    @property
    def single_observation_space(self) -> Box:
        return Box(0, max(self.size, self.n_agents), (2,), jnp.int32)

    @property
    def single_action_space(self) -> Discrete:
        return Discrete(3)

    def _observe(self, place: jax.Array) -> jax.Array:
        crowd = jnp.sum(place[:, None] == place, axis=1, dtype=jnp.int32)
        return jnp.stack([place, crowd], axis=1)

    def _random_places(self, key: jax.Array) -> jax.Array:
        return jax.random.randint(key, (self.n_agents,), 0, self.size, jnp.int32)

    def reset(self, rng: jax.Array) -> tuple[Any, RingState]:
        rng, key = jax.random.split(rng)
        place = self._random_places(key)
        return self._observe(place), RingState(rng=rng, place=place, age=jnp.zeros_like(place))

    def step(self, state: RingState, actions: Any) -> tuple[Any, RingState, Any, Any, Info]:
        rng, key = jax.random.split(state.rng)
        place = (state.place + jnp.asarray(actions, jnp.int32) - 1) % self.size
        crowd, age = self._observe(place)[:, 1], state.age + 1
        done = crowd > 2
        place = jnp.where(done, self._random_places(key), place)
        new = RingState(rng=rng, place=place, age=jnp.where(done, 0, age))
        return self._observe(place), new, -crowd.astype(jnp.float32), done, {"age": age}
